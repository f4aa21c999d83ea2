// The pictures of one tensor: planes of both sides and of the error, and the values of both sides.
import { button, h } from "../dom";
import * as format from "../format";
import { card } from "../parts";
import type { App } from "../state";
import { type Frame, INFINITE, NAN, NEGATIVE_INFINITE, type Picture, axisName, cellName, errorOf, frameName, valueOf } from "./data";
import { colourBar, errorImage, valueImage } from "./image";
import { SPECIAL, css, errorColour, valueColour } from "./palette";
import { densityPlot, valueHistogram } from "./plots";

export function pictureCard(app: App, row: number): HTMLElement | null {
  const picture = app.report.picture(row);
  if (!picture) return null;
  return card(app.t("p_title"), "pictures", h("p", { class: "muted hint" }, facts(app, picture)), planes(app, picture),
    h("div", { class: "plots" }, valueHistogram(app, picture), densityPlot(app, picture)));
}

/** What a plane is, and how much of the tensor is shown. */
function facts(app: App, picture: Picture): string {
  const { axes, shape, cell, frames, frameCount, sampledShare, outside, notFinite } = picture;
  const name = (axis: number | undefined): string => (axis === undefined ? "" : `${axisName(picture, axis)} (${shape[axis]})`);
  const parts: string[] = [];
  if (axes.length) parts.push(axes.length > 1 ? app.t("p_plane", { rows: name(axes[0]), columns: name(axes[1]) }) : app.t("p_line", { columns: name(axes[0]) }));
  if (cell[0] * cell[1] > 1) parts.push(app.t("p_cell", { rows: cell[0], columns: cell[1] }));
  if (frames.length < frameCount) parts.push(app.t("p_worst", { count: frames.length, all: format.number(frameCount) }));
  if (sampledShare < 1) parts.push(app.t("profile_sample", { share: format.percent(sampledShare) }));
  if (outside) parts.push(app.t("p_outside", { count: format.number(outside) }));
  if (notFinite) parts.push(app.t("p_not_finite", { count: format.number(notFinite) }));
  return parts.join(" · ");
}

function planes(app: App, picture: Picture): HTMLElement {
  const images = h("div", { class: "images" });
  const readout = h("p", { class: "readout", attrs: { "aria-live": "polite" } });
  const thumbnails = picture.frames.map((frame) => thumbnail(app, picture, frame, () => choose(frame)));
  const choose = (frame: Frame): void => {
    thumbnails.forEach((each, n) => each.setAttribute("aria-pressed", String(picture.frames[n] === frame)));
    images.replaceChildren(...figures(app, picture, frame, readout));
  };
  if (picture.frames[0]) choose(picture.frames[0]);
  const strip = picture.frames.length > 1 ? h("div", { class: "frames", attrs: { role: "group", "aria-label": app.t("p_choose") } }, ...thumbnails) : null;
  return h("div", {}, images, h("div", { class: "ramps" }, ...ramps(app, picture)), readout, strip);
}

function thumbnail(app: App, picture: Picture, frame: Frame, choose: () => void): HTMLElement {
  const text = app.t("p_frame", { name: frameName(picture, frame), share: format.percent(frame.share) });
  const element = button("", choose, "frame", text);
  element.setAttribute("aria-label", text);
  element.append(errorImage(picture, frame.error, app.theme, text), h("span", {}, frameName(picture, frame)));
  return element;
}

function figures(app: App, picture: Picture, frame: Frame, readout: HTMLElement): HTMLElement[] {
  const name = frameName(picture, frame), of = name ? ` · ${name}` : "";
  const ends = { low: format.number(picture.low, 4), high: format.number(picture.high, 4), name };
  const found: [string, HTMLCanvasElement][] = [
    [app.t("golden") + of, valueImage(picture, frame.golden, app.t("p_golden_text", ends))],
    [app.t("target") + of, valueImage(picture, frame.target, app.t("p_target_text", ends))],
    [app.t("p_error") + of, errorImage(picture, frame.error, app.theme, app.t("p_error_text", { name, largest: format.number(largest(picture, frame.error), 4) }))],
  ];
  if (picture.frameCount > 1) found.push([app.t("p_overall", { count: format.number(picture.frameCount) }), errorImage(picture, picture.overall, app.theme, app.t("p_overall_text", { largest: format.number(largest(picture, picture.overall), 4) }))]);
  const marks = found.map(() => h("span", { class: "cell-mark", attrs: { hidden: "" } }));
  const show = (cell: number | null): void => {
    marks.forEach((mark) => place(mark, picture, cell));
    readout.textContent = textOf(app, picture, frame, cell ?? worst(frame.error), cell === null);
  };
  show(null);
  return found.map(([title, canvas], n) => {
    canvas.addEventListener("pointermove", (event) => show(cellAt(canvas, picture, event)));
    canvas.addEventListener("pointerleave", () => show(null));
    return h("figure", {}, h("figcaption", { title }, title), h("div", { class: "stage" }, canvas, marks[n]!));
  });
}

function cellAt(canvas: HTMLCanvasElement, { extents: [rows, columns] }: Picture, event: PointerEvent): number {
  const within = (share: number, count: number): number => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
  return within(event.offsetY / canvas.clientHeight, rows) * columns + within(event.offsetX / canvas.clientWidth, columns);
}

function place(mark: HTMLElement, { extents: [rows, columns] }: Picture, cell: number | null): void {
  mark.toggleAttribute("hidden", cell === null);
  if (cell === null) return;
  mark.style.left = `${(100 * (cell % columns)) / columns}%`;
  mark.style.top = `${(100 * Math.floor(cell / columns)) / rows}%`;
  mark.style.width = `${100 / columns}%`;
  mark.style.height = `${100 / rows}%`;
}

function worst(codes: Uint8Array): number { return codes.indexOf(Math.max(...codes)); }
function largest(picture: Picture, codes: Uint8Array): number { return errorOf(picture, Math.max(...codes)); }

function textOf(app: App, picture: Picture, frame: Frame, cell: number, isWorst: boolean): string {
  const approximate = (value: number): string => (Number.isFinite(value) && value ? `≈ ${format.number(value, 3)}` : format.number(value));
  const error = frame.error[cell]! > picture.maxCode ? app.t("p_special_error") : approximate(errorOf(picture, frame.error[cell]!));
  const at = [frameName(picture, frame), cellName(picture, cell)].filter(Boolean).join(", ");
  return app.t(isWorst ? "p_worst_cell" : "p_cell_text", { at, golden: approximate(valueOf(picture, frame.golden[cell]!)), target: approximate(valueOf(picture, frame.target[cell]!)), error });
}

/** The scales of colours, and the colours of what is not finite, as far as there is any. */
function ramps(app: App, picture: Picture): HTMLElement[] {
  const { low, high, lowError, highError } = picture;
  const scales = [h("div", {}, h("b", {}, app.t("p_values")), colourBar(valueColour, format.number(low, 4), format.number(high, 4))),
    h("div", {}, h("b", {}, app.t("p_errors")), colourBar((share) => errorColour(share, app.theme), `≤ ${format.number(lowError, 3)}`, format.number(highError, 4)))];
  const values = new Set(picture.frames.flatMap(({ golden, target }) => [...golden, ...target]));
  const names: [number, string][] = [[NAN, "NaN"], [INFINITE, "∞"], [NEGATIVE_INFINITE, "−∞"]];
  const specials = names.filter(([code]) => values.has(code)).map(([code, text]) => swatch(code, text));
  if (picture.overall.includes(NAN)) specials.push(swatch(NAN, `${app.t("p_error")}: ${app.t("p_special_error")}`));
  return [...scales, ...(specials.length ? [h("div", { class: "picture-key" }, ...specials)] : [])];
}

function swatch(code: number, text: string): HTMLElement {
  const square = h("span", { class: "swatch" });
  square.style.background = css(SPECIAL[code]!);
  return h("span", { class: "special" }, square, text);
}
