// All tensors: filtered, sorted, of any number.
import { LEVELS, type LevelName, UNKNOWN } from "../data";
import { button, h, select } from "../dom";
import { search as searchRows } from "../filter";
import * as format from "../format";
import { readable } from "../names";
import { chip, dot, levelText } from "../parts";
import { type App, type View, WORST_FIRST } from "../state";
import { DIMENSIONS, REAL } from "../tokens";
import { type Cell, type ColumnSpec, VirtualTable, isWindowNarrow, leastWidth } from "../virtual";
import { unitColumns, unitFigures } from "./unit_columns";
import { unitFilters } from "./units";

const SEARCH_DELAY_MS = 120;
// Left and right of the table, in pixels.
const MARGIN = 46;
// Columns that are left out first where a window is narrow.
const LEAST_USE = ["ulp", "dtype", "reason", "relative", "shape", "type", "index", "cosine", "tensor", "result", "graph", "rank"];

export function table(app: App): View {
  applyQuery(app, location.hash.split("?")[1]);
  const available = columns(app);
  const shownKeys = app.columns ?? roomFor(available);
  const grid = new VirtualTable(available.filter(({ key }) => shownKeys.has(key)), (row) => app.open(row), app.report, (column) => {
    const { sort } = app;
    if (sort.column === column && sort.down) Object.assign(sort, WORST_FIRST);
    else [sort.column, sort.down] = [column, sort.column === column];
    void update();
  });
  const count = h("span", { class: "muted count", attrs: { role: "status" } });
  const empty = h("p", { class: "empty", attrs: { hidden: "" } });
  let turn = 0;
  const update = async (): Promise<void> => {
    const own = ++turn;
    delete count.dataset["done"];
    app.setAddress(`#/table${queryOf(app)}`);
    const rows = await searchRows(app, () => own === turn, (share) => (count.textContent = app.t("searching", { share: format.percent(Math.round(share * 100) / 100) })));
    if (!rows || own !== turn) return;
    app.order = rows;
    grid.show(rows, { ...app.sort });
    count.dataset["done"] = "";
    count.textContent = app.t("shown", { count: format.number(rows.length), all: format.number(app.report.count) });
    empty.toggleAttribute("hidden", rows.length > 0);
    const { text, type, outputs, levels } = app.filter;
    empty.textContent = text || type || outputs || levels.size || !isNothingCompared(app) ? app.t("no_rows") : `${app.t("verdict_nothing")}. ${app.t("nothing_text")}`;
  };
  const { bar, search } = toolbar(app, () => void update());
  bar.append(chooser(app, available, shownKeys), count);
  const element = h("main", { class: "full table-view" }, bar, grid.element, empty);
  const key = (pressed: string): boolean => {
    if (pressed === "/") search.focus();
    else if (pressed === "Escape" && document.activeElement === search) search.blur();
    else return grid.key(pressed);
    return true;
  };
  const shown = (): void => void update().then(() => { if (app.selected >= 0) grid.selectRow(app.selected); });
  return { element, key, shown, gone: () => void turn++, printing: (isPrinting) => grid.printing(isPrinting) };
}

/** What is searched, filtered and sorted, for the address; empty for nothing. */
function queryOf({ filter, sort }: App): string {
  const query = new URLSearchParams();
  if (filter.text) query.set("search", filter.text);
  if (filter.levels.size) query.set("levels", [...filter.levels].sort().map((level) => LEVELS[level]).join(","));
  if (filter.type) query.set("type", filter.type);
  if (filter.outputs) query.set("outputs", "1");
  for (const dimension of DIMENSIONS) if (filter.where[dimension] !== null) query.set(dimension, String(filter.where[dimension]));
  if (sort.column !== WORST_FIRST.column || sort.down !== WORST_FIRST.down) query.set("sort", `${sort.down ? "-" : ""}${sort.column}`);
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Choose what an address says; one without a query leaves everything as it is. */
function applyQuery({ filter, sort }: App, text: string | undefined): void {
  if (text === undefined) return;
  const query = new URLSearchParams(text);
  const levels = (query.get("levels") ?? "").split(",").map((level) => LEVELS.indexOf(level as LevelName)).filter((level) => level >= 0);
  Object.assign(filter, { text: query.get("search") ?? "", type: query.get("type") ?? "", outputs: query.has("outputs"), levels: new Set(levels) });
  for (const dimension of DIMENSIONS) filter.where[dimension] = query.has(dimension) ? Number(query.get(dimension)) : null;
  const column = query.get("sort");
  Object.assign(sort, column === null ? WORST_FIRST : { column: column.replace(/^-/, ""), down: column.startsWith("-") });
}

/** All columns, less those of least use as long as the window has no room for them. */
function roomFor(available: ColumnSpec[]): Set<string> {
  const shown = new Set(available.map(({ key }) => key));
  const room = (window.innerWidth - MARGIN) / parseFloat(getComputedStyle(document.documentElement).fontSize);
  for (const key of LEAST_USE) {
    if (leastWidth(available.filter((column) => shown.has(column.key))) <= room) break;
    shown.delete(key);
  }
  return shown;
}

/** The choice of columns. */
function chooser(app: App, available: ColumnSpec[], shown: Set<string>): HTMLElement {
  const boxes = available.map(({ key, title }) => {
    const box = h("input", { attrs: { type: "checkbox" }, onchange: () => {
      const chosen = new Set(shown);
      if (!chosen.delete(key)) chosen.add(key);
      app.columns = chosen;
      app.choosing = true;
      app.redraw();
    } });
    box.checked = shown.has(key);
    box.disabled = key === "operator";
    return h("label", { class: "toggle" }, box, title);
  });
  const element = h("details", { class: "popover" }, h("summary", {}, app.t("columns")), h("div", {}, ...boxes));
  element.open = app.choosing;
  element.addEventListener("toggle", () => (app.choosing = element.open));
  return element;
}

const isNothingCompared = ({ report }: App): boolean => report.levels.every((level) => level === UNKNOWN);

function toolbar(app: App, update: () => void): { bar: HTMLElement; search: HTMLInputElement } {
  const { filter, report } = app;
  let timer = 0;
  const search = h("input", { class: "search", attrs: { type: "search", placeholder: `${app.t("search")}  /`, "aria-label": app.t("search") }, oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => { filter.text = search.value; update(); }, SEARCH_DELAY_MS);
  } });
  search.value = filter.text;
  const present = new Set(report.levels);
  const levels = LEVELS.map((_, level) => level).filter((level) => present.has(level)).reverse();
  levels.sort((a, b) => Number(a === UNKNOWN) - Number(b === UNKNOWN));
  const chips = levels.map((level) => {
    const chosen = (): string => String(filter.levels.has(level));
    const element = h("button", { class: `level-toggle level-${LEVELS[level]!}`, attrs: { type: "button", "aria-pressed": chosen() }, onclick: () => {
      if (!filter.levels.delete(level)) filter.levels.add(level);
      element.setAttribute("aria-pressed", chosen());
      update();
    } }, dot(level), levelText(app, level));
    return element;
  });
  const types = select([["", app.t("all_types")], ...report.document.types.map((type) => [type, type] as const)], filter.type, (value) => { filter.type = value; update(); }, app.t("c_type"));
  const outputs = h("input", { attrs: { type: "checkbox" }, onchange: () => { filter.outputs = outputs.checked; update(); } });
  outputs.checked = filter.outputs;
  const clear = button(app.t("clear"), () => {
    Object.assign(filter, { text: "", type: "", outputs: false, where: { rank: null, token: null, graph: null } });
    filter.levels.clear();
    app.setAddress("#/table");
    app.redraw();
  }, "small quiet");
  const bar = h("div", { class: "toolbar" }, search, h("div", { class: "toggles" }, ...chips), ...unitFilters(app, update), types,
    h("label", { class: "toggle" }, outputs, app.t("outputs_only")), clear);
  return { bar, search };
}

function columns(app: App): ColumnSpec[] {
  const { report } = app;
  const metric = (name: string, shown: (value: number | null) => string) => (row: number): Cell => {
    const value = report.metric(name, row);
    return { text: shown(value), ...(value !== null && Number.isNaN(value) ? { class: "bad" } : {}) };
  };
  const text = (name: string) => (row: number): Cell => ({ text: report.text(name, row) });
  const isNarrow = isWindowNarrow();
  const byData = !report.tokens || report.tokens.modes.has(REAL);
  return [
    { key: "level", title: isNarrow ? "" : app.t("c_level"), width: isNarrow ? "3rem" : "11.5rem", early: true, cell: (row) => ({ node: isNarrow ? dot(report.levels[row]!) : chip(app, report.levels[row]!, report.origins[row]), title: report.has(row) ? app.sentences("why", row) : "" }) },
    ...unitColumns(app),
    { key: "index", title: app.t("c_index"), width: "4rem", right: true, cell: (row) => ({ text: String(report.number("index", row)) }) },
    { key: "operator", title: app.t("c_operator"), width: isNarrow ? "minmax(9rem, 3fr)" : "minmax(14rem, 3fr)", cell: (row) => ({ node: h("code", {}, readable(report, report.text("target", row))), title: report.text("target", row) }) },
    { key: "type", title: app.t("c_type"), width: "minmax(7.5rem, 1fr)", cell: text("type") },
    { key: "tensor", title: app.t("c_tensor"), width: "4.5rem", cell: (row) => ({ text: short(app, row), title: report.tensor(row) }) },
    { key: "dtype", title: app.t("c_dtype"), width: "minmax(8.5rem, 1fr)", cell: (row) => ({ text: types(app, row) }) },
    { key: "shape", title: app.t("c_shape"), width: "minmax(9rem, 1fr)", cell: (row) => ({ text: format.shape(report.text("shape", row)).join(" × ") }) },
    ...(byData ? [
      { key: "cosine", title: app.t("c_cosine"), width: "7rem", right: true, cell: metric("cosine", format.cosine) },
      { key: "distance", title: app.t("c_distance"), width: "7rem", right: true, cell: metric("relative_euclidean_distance", (value) => format.number(value, 5)) },
      { key: "relative", title: app.t("c_relative"), width: "7.5rem", right: true, cell: metric("max_relative_error", (value) => format.number(value, 5)) },
      { key: "ulp", title: app.t("c_ulp"), width: "6.5rem", right: true, cell: metric("max_ulp", (value) => format.number(value, 5)) },
    ] : []),
    ...unitFigures(app),
    { key: "reason", title: app.t("c_reason"), width: "minmax(6rem, 2fr)", cell: (row) => ({ text: app.sentences("reason", row), title: app.sentences("reason", row) }) },
  ];
}

export function short(app: App, row: number): string {
  const slot = app.report.slots[row]!;
  return slot < 0 ? app.t("whole") : `${app.t(slot ? "output" : "input")} ${app.report.number("number", row)}`;
}

export function types(app: App, row: number): string {
  const [target, golden] = [app.report.text("targetType", row), app.report.text("goldenType", row)];
  return target === golden || !golden ? target : `${target} / ${golden}`;
}
