// A finding at a glance: the worst plane of its tensor on both sides, the error, and the density of the values.
import { h } from "../dom";
import type { App } from "../state";
import { frameName } from "./data";
import { densityImage, errorImage, valueImage } from "./image";
import { diagonal } from "./plots";

export function pictureStrip(app: App, row: number, open: () => void): HTMLElement | null {
  const picture = app.report.picture(row), frame = picture?.frames[0];
  if (!picture || !frame) return null;
  const name = frameName(picture, frame);
  const figure = (title: string, ...content: Node[]): HTMLElement => h("figure", {}, h("div", { class: "stage" }, ...content), h("figcaption", {}, title));
  return h("button", { class: "picture-strip", title: app.t("p_open", { name }), onclick: open, attrs: { type: "button", "aria-label": app.t("p_open", { name }) } },
    figure(app.t("golden"), valueImage(picture, frame.golden, "")), figure(app.t("target"), valueImage(picture, frame.target, "")),
    figure(app.t("p_error"), errorImage(picture, frame.error, app.theme, "")), figure(app.t("p_density_short"), densityImage(picture, app.theme, ""), diagonal()));
}
