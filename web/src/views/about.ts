// Who compared what, with which versions; what the colours mean.
import { LEVELS, UNKNOWN } from "../data";
import { h } from "../dom";
import { card, chip, definition, name } from "../parts";
import type { App, View } from "../state";
import { type Key, hasText } from "../texts";

export function about(app: App): View {
  const { document, count } = app.report;
  const measured = app.report.levels.filter((level) => level !== UNKNOWN).length;
  const made = Object.entries(document.environment).filter(([key, value]) => value && hasText(`e_${key}`))
    .map(([key, value]): [string, string] => [app.t(`e_${key}` as Key), value]);
  const what = card(app.t("environment"), "", definition([
    [app.t("scenario"), app.scenario],
    [app.t("target"), name(document.target.path)],
    [app.t("golden"), name(document.golden.path)],
    [app.t("compared"), app.t("of_rows", { count: measured, all: count })],
    ...made,
  ]), h("p", { class: "muted" }, app.t("about_text")));
  const legend = card(app.t("legend"), "", h("div", { class: "legend-list" }, ...LEVELS.flatMap((level, n) =>
    [chip(app, n), h("span", {}, app.t(`about_${level}`))])), app.report.tokens ? h("p", { class: "muted" }, app.t("graph_levels")) : null);
  return { element: h("main", { class: "about" }, what, legend, card(app.t("keys"), "", keyList(app))) };
}

export function keyList(app: App): HTMLElement {
  const keys: [string, Key][] = [["/", "k_search"], ["j  k", "k_move"], ["Enter", "k_open"], ["Esc", "k_back"], ["o  g  t", "k_views"], ["?", "k_help"]];
  return h("div", { class: "keys" }, ...keys.flatMap(([key, text]) => [h("span", {}, ...key.split("  ").map((one) => h("kbd", {}, one))), h("span", {}, app.t(text))]));
}
