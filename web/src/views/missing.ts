// What has no numbers, and why.
import { UNKNOWN } from "../data";
import { h } from "../dom";
import { card } from "../parts";
import type { App, View } from "../state";
import { VirtualTable } from "../virtual";
import { short } from "./table";
import { unitColumns } from "./unit_columns";

const MOST = 6;

export function missing(app: App): View {
  const { report } = app;
  const all: number[] = [];
  for (let row = 0; row < report.count; row++) if (report.levels[row] === UNKNOWN) all.push(row);
  if (!all.length) return { element: h("main", {}, card("", "", h("p", { class: "empty" }, app.t("none_missing"))), notes(app)) };
  let kind = "";
  const grid = new VirtualTable([
    ...unitColumns(app).filter(({ key }) => key !== "result"),
    { key: "index", title: app.t("c_index"), width: "4rem", right: true, cell: (row) => ({ text: String(report.row("index").numbers[row]) }) },
    { key: "operator", title: app.t("c_operator"), width: "minmax(12rem, 2fr)", cell: (row) => ({ node: h("code", {}, report.text("target", row)), title: report.text("target", row) }) },
    { key: "type", title: app.t("c_type"), width: "minmax(6rem, 1fr)", cell: (row) => ({ text: report.text("type", row) }) },
    { key: "tensor", title: app.t("c_tensor"), width: "8rem", cell: (row) => ({ text: short(app, row) }) },
    { key: "reason", title: app.t("c_reason"), width: "minmax(16rem, 4fr)", cell: (row) => ({ text: app.sentences("reason", row) }) },
  ], (row) => app.open(row));
  const update = (): void => {
    const rows = all.filter((row) => !kind || kindOf(app, row) === kind);
    app.order = rows;
    grid.show(rows);
  };
  const counts = new Map<string, { first: number; count: number }>();
  for (const row of all) {
    const found = counts.get(kindOf(app, row));
    if (found) found.count++;
    else counts.set(kindOf(app, row), { first: row, count: 1 });
  }
  const kinds = [...counts].sort((a, b) => b[1].count - a[1].count).slice(0, MOST).map(([text, { first, count }]) => {
    const element = h("button", { class: "reason", attrs: { type: "button", "aria-pressed": "false" }, onclick: () => {
      kind = kind === text ? "" : text;
      for (const other of kinds) other.setAttribute("aria-pressed", String(other === element && kind !== ""));
      update();
    } }, h("b", {}, count), app.sentences("reason", first));
    return element;
  });
  const element = h("main", { class: "full" }, h("p", { class: "muted hint" }, app.t("missing_hint")), notes(app), h("div", { class: "reasons" }, ...kinds), grid.element);
  return { element, shown: update, key: (pressed) => grid.key(pressed), printing: (isPrinting) => grid.printing(isPrinting) };
}

/** What is to be known about dumps of graph mode: ranks and tokens that one side lacks. */
function notes(app: App): HTMLElement | null {
  const found = app.report.document.graphMode?.notes ?? [];
  return found.length ? card(app.t("run_notes"), "notes", h("ul", {}, ...found.map((note) => h("li", {}, app.sentence(note))))) : null;
}

/** The templates of a reason, which rows that differ in names and numbers share. */
function kindOf(app: App, row: number): string { return templatesOf(app.report.sentences("reason", row)).join(" "); }

function templatesOf(value: unknown): number[] {
  if (Array.isArray(value)) return value.flatMap((each) => (typeof each === "number" ? [each] : templatesOf(each)));
  return value !== null && typeof value === "object" && "all" in value ? templatesOf(value.all) : [];
}
