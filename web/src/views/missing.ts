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
    { key: "reason", title: app.t("c_reason"), width: "minmax(16rem, 4fr)", cell: (row) => ({ text: app.told(report.text("reason", row)) }) },
  ], (row) => app.open(row));
  const update = (): void => {
    const rows = all.filter((row) => !kind || kindOf(app, row) === kind);
    app.order = rows;
    grid.show(rows);
  };
  const counts = new Map<string, number>();
  for (const row of all) counts.set(kindOf(app, row), (counts.get(kindOf(app, row)) ?? 0) + 1);
  const kinds = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([text, count]) => {
    const element = h("button", { class: "reason", attrs: { type: "button", "aria-pressed": "false" }, onclick: () => {
      kind = kind === text ? "" : text;
      for (const other of kinds) other.setAttribute("aria-pressed", String(other === element && kind !== ""));
      update();
    } }, h("b", {}, count), app.told(text));
    return element;
  });
  const element = h("main", { class: "full" }, h("p", { class: "muted hint" }, app.t("missing_hint")), notes(app), h("div", { class: "reasons" }, ...kinds), grid.element);
  return { element, shown: update, key: (pressed) => grid.key(pressed), printing: (isPrinting) => grid.printing(isPrinting) };
}

/** What is to be known about dumps of graph mode: ranks and tokens that one side lacks. */
function notes(app: App): HTMLElement | null {
  const found = app.report.document.graphMode?.notes ?? [];
  return found.length ? card(app.t("run_notes"), "notes", h("ul", {}, ...found.map((note) => h("li", {}, app.told(note))))) : null;
}

/** A reason without the names in it: what stands there instead of them is the same for all. */
function kindOf(app: App, row: number): string {
  const { report } = app;
  let text = report.text("reason", row);
  const names = [report.tensor(row), report.text("target", row), report.text("golden", row), report.text("operator", row), report.text("type", row)];
  for (const name of names.filter((name) => name.length > 1).sort((a, b) => b.length - a.length)) text = text.replaceAll(name, "…");
  return text.replace(/[\w/.-]*\d[\w/.-]*/g, "…");
}
