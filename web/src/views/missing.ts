// What has no numbers, and why.
import { UNKNOWN } from "../data";
import { h } from "../dom";
import { readable } from "../names";
import { card } from "../parts";
import type { App, View } from "../state";
import { type ColumnSpec, VirtualTable, isWindowNarrow } from "../virtual";
import { short } from "./table";
import { unitColumns } from "./unit_columns";

const MOST = 6;
// Columns that a narrow window has no room for.
const LESS_USE = ["index", "type", "tensor"];

export function missing(app: App): View {
  const { report } = app;
  const all: number[] = [];
  for (let row = 0; row < report.count; row++) if (report.levels[row] === UNKNOWN) all.push(row);
  if (!all.length) return { element: h("main", {}, card("", "", h("p", { class: "empty" }, app.t("none_missing"))), notes(app)) };
  let kind = -1;
  const columns: ColumnSpec[] = [
    ...unitColumns(app).filter(({ key }) => key !== "result"),
    { key: "index", title: app.t("c_index"), width: "4rem", right: true, cell: (row) => ({ text: String(report.number("index", row)) }) },
    { key: "operator", title: app.t("c_operator"), width: "minmax(8rem, 2fr)", cell: (row) => ({ node: h("code", {}, readable(report, report.text("target", row))), title: report.text("target", row) }) },
    { key: "type", title: app.t("c_type"), width: "minmax(6rem, 1fr)", cell: (row) => ({ text: report.text("type", row) }) },
    { key: "tensor", title: app.t("c_tensor"), width: "8rem", cell: (row) => ({ text: short(app, row) }) },
    { key: "reason", title: app.t("c_reason"), width: "minmax(13rem, 4fr)", cell: (row) => ({ text: app.sentences("reason", row) }) },
  ];
  const grid = new VirtualTable(columns.filter(({ key }) => !isWindowNarrow() || !LESS_USE.includes(key)), (row) => app.open(row), report);
  const rowKinds = report.missingKinds;
  const update = (): void => {
    const rows = all.filter((_, place) => kind < 0 || rowKinds[place] === kind);
    app.order = rows;
    grid.show(rows);
  };
  const counts = report.document.missing.kinds.map((reasons, number) => ({ reasons, number, count: 0 }));
  for (const number of rowKinds) counts[number]!.count++;
  const kinds = counts.sort((a, b) => b.count - a.count).slice(0, MOST).map(({ reasons, number, count }) => {
    const element = h("button", { class: "reason", attrs: { type: "button", "aria-pressed": "false" }, onclick: () => {
      kind = kind === number ? -1 : number;
      for (const other of kinds) other.setAttribute("aria-pressed", String(other === element && kind >= 0));
      update();
    } }, h("b", {}, count), app.joined(reasons));
    return element;
  });
  const element = h("main", { class: "full" }, h("p", { class: "muted hint" }, app.t("missing_hint")), notes(app), h("div", { class: "reasons" }, ...kinds), grid.element);
  return { element, shown: update, key: (pressed) => grid.key(pressed), printing: (isPrinting) => grid.printing(isPrinting) };
}

/** What is to be known about dumps of graph mode: ranks and tokens that one side lacks. */
function notes(app: App): HTMLElement | null {
  const found = app.report.document.notes;
  return found.length ? card(app.t("run_notes"), "notes", h("ul", {}, ...found.map((note) => h("li", {}, app.sentence(note))))) : null;
}
