// What is different from an earlier comparison.
import { readable } from "../names";
import { dot, levelText } from "../parts";
import { type Environment } from "../data";
import { h } from "../dom";
import * as format from "../format";
import type { App, View } from "../state";
import type { Key } from "../texts";
import { type Cell, type ColumnSpec, VirtualTable, isWindowNarrow } from "../virtual";

// Columns that a narrow window has room for.
const MOST_USE = ["change", "tensor", "d2"];
const KINDS = ["worse", "vanished", "appeared", "better"] as const;

export function changes(app: App): View {
  const { report } = app;
  const kinds = report.changesColumn("kind").numbers;
  const all = Array.from(kinds.keys());
  const text = (column: string, row: number): string => report.textOf(report.changesColumn(column).numbers[row]!);
  const level = (column: string) => (row: number): Cell => {
    const value = report.changesColumn(column).numbers[row]!;
    return value < 0 ? { text: "–" } : { node: h("span", { class: "with-dot" }, dot(value), levelText(app, value)) };
  };
  const figure = (column: string, shown: (value: number | null) => string) => (row: number): Cell => ({ text: shown(report.changesColumn(column).at(row)) });
  const columns: ColumnSpec[] = [
    { key: "change", title: app.t("c_change"), width: "5rem", cell: (row) => ({ node: h("b", { class: `change ${text("kind", row)}` }, app.t(`change_${text("kind", row)}` as Key)) }) },
    { key: "tensor", title: app.t("c_tensor"), width: "minmax(9rem, 3fr)", cell: (row) => ({ node: h("code", {}, shortTensor(app, text("operator", row), text("tensor", row))), title: text("tensor", row) }) },
    { key: "before", title: app.t("c_before"), width: "9rem", cell: level("before") },
    { key: "after", title: app.t("c_after"), width: "9rem", cell: level("after") },
    { key: "c1", title: `${app.t("c_cosine")} · ${app.t("old")}`, width: "9rem", right: true, cell: figure("cosineBefore", format.cosine) },
    { key: "c2", title: app.t("new"), width: "7rem", right: true, cell: figure("cosineAfter", format.cosine) },
    { key: "d1", title: `${app.t("c_distance")} · ${app.t("old")}`, width: "10rem", right: true, cell: figure("distanceBefore", format.number) },
    { key: "d2", title: isWindowNarrow() ? app.t("c_distance") : app.t("new"), width: "7rem", right: true, cell: figure("distanceAfter", format.number) },
  ];
  const grid = new VirtualTable(columns.filter(({ key }) => !isWindowNarrow() || MOST_USE.includes(key)), (row) => { const found = report.changesColumn("row").numbers[row]!; if (found >= 0) app.open(found); });
  const { old, new: now } = report.document.changes!;
  const summary = changeCounts(app, h("div", { class: "versions muted" }, versions(app, "old", old), versions(app, "new", now)));
  const body = all.length ? grid.element : h("p", { class: "empty" }, app.t("no_changes"));
  return { element: h("main", { class: "full" }, summary, body), shown: () => grid.show(all), key: (pressed) => grid.key(pressed), printing: (isPrinting) => grid.printing(isPrinting) };
}

const shortTensor = (app: App, operator: string, tensor: string): string =>
  operator && tensor.startsWith(operator) ? readable(app.report, operator) + tensor.slice(operator.length) : tensor;

/** How many tensors changed in which way, and what became of the operators at fault. */
export function changeCounts(app: App, ...more: HTMLElement[]): HTMLElement {
  const { report } = app;
  const counts = new Map<string, number>();
  for (const kind of report.changesColumn("kind").numbers) counts.set(report.textOf(kind), (counts.get(report.textOf(kind)) ?? 0) + 1);
  const faults = report.document.changes!.faults.map((each) => h("p", { class: "change-faults" }, app.sentence(each)));
  return h("div", {}, ...faults, h("div", { class: "change-counts" }, ...KINDS.map((kind) =>
    h("div", { class: `change ${kind}` }, h("b", {}, counts.get(kind) ?? 0), app.t(`change_${kind}`))), ...more));
}

function versions(app: App, which: "old" | "new", { opdiff, kernel, time }: Environment): HTMLElement {
  return h("span", {}, `${app.t(which)}: ${[opdiff && `opdiff ${opdiff}`, kernel, time].filter(Boolean).join(" · ") || "–"}`);
}
