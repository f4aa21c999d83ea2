// One tensor: everything that is known about it.
import { type Report, SUSPICIOUS, UNKNOWN, WRONG } from "../data";
import { button, h } from "../dom";
import * as format from "../format";
import { histogram } from "../histogram";
import { pictureCard } from "../pictures/card";
import { numbered } from "../pictures/path";
import { card, chip, copyButton, definition, dot, name } from "../parts";
import { profileCards } from "../profile";
import type { App, View } from "../state";
import type { Key } from "../texts";
import { short } from "./table";
import { documented, statistics, unitFacts, unitSides } from "./unit_row";
import { placeText } from "./units";

interface Figure { name: string; limit?: [string, (value: number) => boolean]; shown?: (value: number | null) => string }
const FIGURES: Figure[] = [
  { name: "cosine", limit: ["≥ 0.99", (value) => value >= 0.99], shown: format.cosine },
  { name: "relative_euclidean_distance", limit: ["≤ 0.05", (value) => value <= 0.05] },
  { name: "norm_ratio", limit: ["1 ± 0.01", (value) => Math.abs(value - 1) <= 0.01] },
  { name: "special_mismatches", limit: ["0", (value) => value === 0] },
  { name: "max_relative_error" }, { name: "mean_relative_error" }, { name: "max_absolute_error" }, { name: "mean_absolute_error" },
  { name: "root_mean_square_error" }, { name: "accumulated_relative_error" }, { name: "kl_divergence" },
  { name: "centred_cosine", shown: format.cosine }, { name: "finite_cosine", shown: format.cosine }, { name: "snr_db" }, { name: "error_bias" },
  { name: "over_1_permille", shown: format.percent }, { name: "over_5_permille", shown: format.percent }, { name: "max_ulp" },
  { name: "fit_scale" }, { name: "fit_offset" }, { name: "fit_distance" }, { name: "count" }, { name: "zero_golden", shown: format.percent },
];

export function row(app: App, number: number): View {
  const { report } = app;
  const step = (by: number): void => {
    // Where the list that was looked at does not have this row, all rows are gone through.
    const place = Array.prototype.indexOf.call(app.order, number);
    const next = place < 0 ? number + by : app.order[place + by];
    if (next !== undefined && next >= 0 && next < report.count) app.open(next);
  };
  const back = (): void => app.back();
  const element = h(
    "main",
    { class: "row-view" },
    heading(app, number, step, back),
    pictureCard(app, number),
    h("div", { class: "columns" },
      h("div", {}, sides(app, number), worst(app, number), pairing(app, number), siblings(app, number)),
      h("div", {}, documented(app, number), statistics(app, number), ...profileCards(app, number), distributions(app, number), figures(app, number))),
  );
  const key = (pressed: string): boolean => {
    if (pressed === "j") step(1);
    else if (pressed === "k") step(-1);
    else if (pressed === "Escape") back();
    else return false;
    return true;
  };
  return { element, key };
}

function heading(app: App, number: number, step: (by: number) => void, back: () => void): HTMLElement {
  const { report } = app;
  const title = report.tensor(number) || report.text("target", number);
  const excess = report.value("excess", number);
  const bad = report.levels[number] === SUSPICIOUS || report.levels[number] === WRONG;
  return h(
    "header",
    { class: "row-head" },
    h("nav", {}, button(`← ${app.t("back")}`, back, "small quiet"), h("span", { class: "spacer" }),
      button(`‹ ${app.t("previous")}`, () => step(-1), "small quiet", "k"), button(`${app.t("next")} ›`, () => step(1), "small quiet", "j")),
    h("h1", {}, h("code", {}, title)),
    h("p", { class: "facts" }, chip(app, report.levels[number]!, report.origins[number]), report.tokens && h("b", { class: "place" }, placeText(app, number)), h("span", { class: "muted" }, `${numbered(app, number)}${report.text("type", number)}`),
      h("span", { class: bad ? "why" : "why muted" }, `${app.t("why_level")}: ${app.sentences("why", number)}`),
      excess !== null && excess > 1 && h("span", { class: "muted why" }, app.t("excess", { times: format.number(excess, 3) })),
      h("span", { class: "spacer" }),
      report.hasGraph && button(app.t("in_graph"), () => {
        app.unit = report.unit(number);
        app.go("graph", report.text("operator", number) || report.text("target", number));
      }, "small"), copyButton(app, title)),
    ...report.explanations(number).map((order) => h("p", { class: "explanation" }, h("b", {}, `${app.t("explanation")}: `), app.sentence(order))),
  );
}

function sides(app: App, row: number): HTMLElement {
  const { report } = app;
  const pair = (target: string, golden: string) => (value: (name: string) => string): [string, string] => [value(target), value(golden)];
  const text = (name: string): string => report.text(name, row) || "–";
  const metric = (name: string): string => format.number(report.metric(name, row));
  const path = (side: string): string => [report.text(`${side}Folder`, row), report.text(`${side}File`, row)].filter(Boolean).join("/") || "–";
  const range = (side: string): string => (report.metric(`${side}_min`, row) === null ? "–" : `${metric(`${side}_min`)} … ${metric(`${side}_max`)}`);
  const lines: [Key, [string, string]][] = report.tokens ? unitSides(app, row) : [
    ["name", [report.tensor(row) || "–", text("goldenTensor")]],
    ["operators", pair("target", "golden")(text)],
    ["dtype", pair("targetType", "goldenType")(text)],
    ["range", pair("target", "golden")(range)],
    ["mean", pair("target_mean", "golden_mean")(metric)],
    ["deviation", pair("target_std", "golden_std")(metric)],
    ["specials", pair("target", "golden")((side) => `${metric(`${side}_nans`)} / ${metric(`${side}_infs`)}`)],
    ["address", pair("targetAddress", "goldenAddress")((name) => format.address(report.value(name, row)))],
    ["file", pair("target", "golden")(path)],
  ];
  const grid = h("table", { class: "facts-table" },
    h("thead", {}, h("tr", {}, h("th", {}), h("th", {}, app.t("target")), h("th", {}, app.t("golden")))),
    h("tbody", {}, ...lines.map(([key, [target, golden]]) => h("tr", {}, h("th", {}, app.t(key)), ...[target, golden].map((value) => h("td", {}, h("div", { class: "long" }, value)))))));
  const shape = format.shape(report.text("shape", row));
  const overflow = report.value("overflow", row);
  const more: [string, string][] = [[app.t("shape"), shape.length ? shape.join(" × ") : report.text("shape", row) || "–"]];
  if (overflow !== null && overflow >= 0) more.push([app.t("overflow"), app.t(overflow ? "yes" : "no")]);
  return card(app.t("tensors"), "", grid, definition(more));
}

function figures(app: App, row: number): HTMLElement | null {
  const { report } = app;
  if (!report.isMeasured(row)) return null;
  const lines = FIGURES.map(({ name, limit, shown = format.number }) => {
    const value = report.metric(name, row);
    if (value === null) return null;
    const holds = limit ? limit[1](value) : null;
    return h("tr", { class: holds === false ? "bad" : "" }, h("th", {}, app.t(`n_${name}` as Key)), h("td", { class: "num" }, shown(value)),
      h("td", { class: "limit" }, limit ? `${limit[0]} ${holds ? "✓" : "✕"}` : ""));
  });
  const own = report.custom(row).map(([key, value]) => h("tr", {}, h("th", {}, key), h("td", { class: "num" }, value), h("td", {})));
  return card(app.t("figures"), "", h("table", { class: "figures" },
    h("thead", {}, h("tr", {}, h("th", {}), h("th", { class: "num" }, app.t("value")), h("th", { class: "limit" }, app.t("limits")))),
    h("tbody", {}, ...lines, ...own)));
}

function distributions(app: App, row: number): HTMLElement | null {
  const { report } = app;
  const { edges } = report.document;
  const parts = (["relative", "ulp"] as const).map((which) => {
    const bins = report.histogram(which, row);
    if (!bins.some(Boolean)) return null;
    return h("div", {}, h("h3", {}, app.t(which === "relative" ? "relative_error" : "ulp_distance")), histogram(app, bins, edges[which], which === "relative"));
  });
  return parts.some(Boolean) ? card(app.t("histogram"), "", ...parts) : null;
}

function worst(app: App, row: number): HTMLElement | null {
  const { report } = app;
  if (!report.isMeasured(row)) return null;
  const extents = format.shape(report.text("shape", row));
  const lines: (string | Node)[][] = [];
  const at = (metric: string): string => format.place(report.metric(metric, row), extents);
  /** One element: position and values on both sides. Errors with NaN and infinities are apart: they have no size. */
  const add = (label: string, name: string, error: (target: number, golden: number) => number): void => {
    if (report.metric(`${name}_index`, row) === null) return;
    const [target, golden] = [report.metric(`${name}_target`, row), report.metric(`${name}_golden`, row)];
    lines.push([label, at(`${name}_index`), format.number(target), format.number(golden), target !== null && golden !== null ? format.number(error(target, golden)) : "–"]);
  };
  const isFinite = report.metric("finite_count", row) === report.metric("count", row);
  const labelled = (key: Key): string => app.t(key) + (isFinite ? "" : app.t("of_finite"));
  add(labelled("by_absolute"), "worst", (target, golden) => Math.abs(target - golden));
  add(labelled("by_relative"), "worst_relative", (target, golden) => Math.abs(target - golden) / Math.abs(golden));
  if (report.metric("first_special_mismatch", row) !== null) lines.push([app.t("first_special"), at("first_special_mismatch"), "", "", ""]);
  if (!lines.length) return null;
  const titles = ["", app.t("position"), app.t("target"), app.t("golden"), app.t("error")];
  return card(app.t("worst_elements"), "", h("table", { class: "facts-table" }, h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", {}, title)))),
    h("tbody", {}, ...lines.map(([first, ...rest]) => h("tr", {}, h("th", {}, first!), ...rest.map((cell) => h("td", { class: "num" }, cell)))))));
}

function pairing(app: App, row: number): HTMLElement {
  const { report } = app;
  const confidence = report.value("confidence", row) ?? -1;
  const steps = report.sentences("steps", row, app.language);
  const facts: [string, Node | string][] = [];
  if (report.text("rule", row)) facts.push([app.t("rule"), app.sentences("rule", row)]);
  if (confidence >= 0) facts.push([app.t("confidence"), format.percent(confidence / 1000)]);
  if (report.levels[row] !== UNKNOWN && !report.tokens) facts.push([app.t("layout_steps"), steps.length ? h("ol", {}, ...steps.map((step) => h("li", {}, step))) : app.t("no_steps")]);
  if (report.text("reason", row)) facts.push([app.t("notes"), app.sentences("reason", row)]);
  facts.push(...unitFacts(app, row));
  return card(app.t("evidence_pair"), "", definition(facts));
}

function siblings(app: App, row: number): HTMLElement | null {
  const { report } = app;
  const rows = rowsOfOperator(report, row);
  if (rows.length < 2) return null;
  return card(app.t("siblings"), "", h("div", { class: "looks" }, ...rows.map((other) =>
    h("a", { class: other === row ? "look current" : "look", attrs: { href: `#/row/${other}` } }, dot(report.levels[other]!),
      h("span", { class: "slot" }, short(app, other)), name(report.text("goldenTensor", other) || app.sentences("reason", other)), report.isMeasured(other) && h("span", { class: "num" }, format.cosine(report.metric("cosine", other)))))));
}

function rowsOfOperator(report: Report, row: number): number[] {
  const target = report.text("target", row);
  return [...report.rowsOf(report.unit(row))].filter((other) => report.text("target", other) === target);
}
