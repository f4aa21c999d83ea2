// What the page of a tensor has in graph mode alone. What was not measured has no line.
import { h } from "../dom";
import * as format from "../format";
import { card } from "../parts";
import type { App } from "../state";
import { FAIL, STATISTICS } from "../tokens";
import type { Key } from "../texts";
import { offText, resultText } from "./unit_columns";

const SIDES = ["target", "golden"] as const;
type Side = (typeof SIDES)[number];
// The documented names, and the limits that PASS goes by.
const DOCUMENTED: { name: string; title: string; limit?: [string, (value: number) => boolean]; hint?: Key; shown?: (value: number | null) => string }[] = [
  { name: "cosine", title: "Cosine", limit: ["≥ 0.99", (value) => value >= 0.99], shown: format.cosine },
  { name: "max_relative", title: "MaxRelativeErr", limit: ["< 0.01", (value) => value < 0.01] },
  { name: "max_abs", title: "MaxAbsErr" }, { name: "euclidean", title: "EucDist" },
  // In spite of their names they are shares of good elements, other than our shares over 1 ‰ and 5 ‰.
  { name: "one_permille", title: "One Thousandth Err Ratio", hint: "within_1", shown: format.percent }, { name: "five_permille", title: "Five Thousandth Err Ratio", hint: "within_5", shown: format.percent },
];

/** Both sides: by the data where that was measured, else by the statistics or checksums that are known. */
export function unitSides(app: App, row: number): [Key, [string, string]][] {
  const { report } = app;
  const tokens = report.tokens!;
  const measured = report.isMeasured(row);
  const known = (side: Side, metric: string, statistic: string): number | null =>
    measured ? report.metric(`${side}_${metric}`, row) : tokens.figure("statistics", `${side}_${statistic}`, row);
  const shown = (side: Side, ...names: [string, string][]): (string | null)[] => names.map(([metric, statistic]) => {
    const value = known(side, metric, statistic);
    return value === null ? null : format.number(value);
  });
  const joined = (values: (string | null)[], between: string): string => (values.every((value) => value === null) ? "" : values.map((value) => value ?? "–").join(between));
  const both = (value: (side: Side) => string): [string, string] => [value("target") || "–", value("golden") || "–"];
  const lines: [Key, [string, string]][] = [
    ["name", [report.tensor(row) || "–", report.text("goldenTensor", row) || "–"]],
    ["operators", [report.text("target", row) || "–", report.text("golden", row) || "–"]],
    ["dtype", both((side) => report.text(`${side}Type`, row))],
    ["range", both((side) => joined(shown(side, ["min", "minimum"], ["max", "maximum"]), " … "))],
    ["mean", both((side) => joined(shown(side, ["mean", "mean"]), ""))],
    ["deviation", both((side) => (measured ? format.number(report.metric(`${side}_std`, row)) : ""))],
    ["norm", both((side) => (measured ? "" : joined(shown(side, ["", "norm"]), "")))],
    ["specials", both((side) => joined(shown(side, ["nans", "nans"], ["infs", "infs"]), " / "))],
    ["crc", both((side) => tokens.checksum(side, row))],
    ["file", both((side) => [report.text(`${side}Folder`, row), report.text(`${side}File`, row)].filter(Boolean).join("/"))],
  ];
  return lines.filter(([, [target, golden]]) => target !== "–" || golden !== "–");
}

/** The metrics that PASS and FAIL go by. */
export function documented(app: App, row: number): HTMLElement | null {
  const { tokens } = app.report;
  if (!tokens || tokens.figure("real", "max_abs", row) === null) return null;
  const lines = DOCUMENTED.map(({ name, title, limit, hint, shown = format.number }) => {
    const value = tokens.figure("real", name, row);
    if (value === null) return null;
    const holds = limit ? limit[1](value) : null;
    return h("tr", { class: holds === false ? "bad" : "" }, h("th", {}, title), h("td", { class: "num" }, shown(value)), h("td", { class: "limit" }, limit ? `${limit[0]} ${holds ? "✓" : "✕"}` : hint ? app.t(hint) : ""));
  });
  return figureCard(app, app.t("documented"), row, lines);
}

/** How far statistics are off, or that checksums are equal. */
export function statistics(app: App, row: number): HTMLElement | null {
  const { tokens } = app.report;
  if (!tokens || app.report.isMeasured(row) || tokens.results[row]! > FAIL) return null;
  const isStatistics = tokens.mode(row) === STATISTICS;
  const lines = !isStatistics ? [] : (["max", "min", "mean", "norm"] as const).map((name) => {
    const value = tokens.figure("statistics", `${name}_relative`, row);
    return value === null ? null : h("tr", {}, h("th", {}, app.t(`s_${name}`)), h("td", { class: "num" }, offText(value)), h("td", {}));
  });
  return figureCard(app, app.t(isStatistics ? "statistics_off" : "crc"), row, lines, app.t("no_data"));
}

function figureCard(app: App, title: string, row: number, lines: (HTMLElement | null)[], note = ""): HTMLElement {
  const failed = app.report.tokens!.results[row] === FAIL;
  const result = h("p", {}, `${app.t("result")}: `, h("b", { class: failed ? "bad" : "" }, resultText(app, row)));
  const table = lines.some(Boolean) ? h("table", { class: "figures" }, h("tbody", {}, ...lines)) : null;
  return card(title, "result-card", result, table, note ? h("p", { class: "muted" }, note) : null);
}

/** Why the row is marked, and where in the user's code its operator comes from. */
export function unitFacts(app: App, row: number): [string, string][] {
  const { tokens } = app.report;
  if (!tokens) return [];
  const block = app.report.block(row);
  const facts: [string, string][] = [[app.t("marks"), block.remark("marks", row - block.first, app.language)], [app.t("stack"), block.remark("stack", row - block.first, app.language)]];
  return facts.filter(([, value]) => value);
}
