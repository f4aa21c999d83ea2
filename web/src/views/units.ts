// Ranks, tokens and graphs of graph mode: which there are, which one is looked at, how good each is.
import { LEVELS, SUSPICIOUS, UNKNOWN, WRONG } from "../data";
import { h, select } from "../dom";
import * as format from "../format";
import { SIGNS, card } from "../parts";
import type { App } from "../state";
import { DIMENSIONS, type Dimension, FAIL, PASS, type Unit } from "../tokens";
import type { Key } from "../texts";

const MOST_CELLS = 4000, FEW_TOKENS = 12;
const NAMES: Record<Dimension, Key> = { rank: "rank", token: "token", graph: "graph_number" };

export const unitText = (app: App, unit: Unit, dimensions: readonly Dimension[] = DIMENSIONS): string =>
  dimensions.filter((dimension) => unit[dimension] !== null).map((dimension) => app.t(NAMES[dimension], { number: unit[dimension]! })).join(" · ");

/** Where a row is; empty outside of graph mode. */
export const placeText = (app: App, row: number): string => (app.report.tokens ? unitText(app, app.report.tokens.of(row)) : "");

/** What there are several of. */
export function severalOf(app: App): Dimension[] {
  const { tokens } = app.report;
  return tokens ? DIMENSIONS.filter((dimension) => tokens.values(dimension).length > 1) : [];
}

/** A choice of the token that is shown. */
export function unitSelects(app: App, change: () => void): HTMLElement[] {
  return severalOf(app).map((dimension) => {
    const options = app.report.tokens!.values(dimension).map((value) => [String(value), app.t(NAMES[dimension], { number: value })] as const);
    return select(options, String(app.report.tokens!.units[app.unit]![dimension]), (value) => {
      app.unit = nearest(app, dimension, Number(value));
      change();
    }, app.t(`c_${dimension}`));
  });
}

/** The token that is shown, for the address; empty where there is only one. */
export function unitQuery(app: App): string {
  const several = severalOf(app), unit = app.report.tokens?.units[app.unit];
  return unit && several.length ? `?${several.map((dimension) => `${dimension}=${unit[dimension]}`).join("&")}` : "";
}

/** The token that an address names; `null` for none. */
export function unitOfQuery(app: App, query: URLSearchParams): number | null {
  const named = severalOf(app).filter((dimension) => query.has(dimension));
  const found = named.length ? app.report.tokens!.units.findIndex((unit) => named.every((dimension) => String(unit[dimension]) === query.get(dimension))) : -1;
  return found < 0 ? null : found;
}

/** The unit with this value that has most in common with the one that is shown. */
function nearest(app: App, dimension: Dimension, value: number): number {
  const { units } = app.report.tokens!;
  const now = units[app.unit]!;
  const likeness = (unit: Unit): number => (unit[dimension] === value ? 10 : 0) + DIMENSIONS.filter((other) => unit[other] === now[other]).length;
  return units.reduce((best, unit, number) => (likeness(unit) > likeness(units[best]!) ? number : best), 0);
}

/** A filter of the table for each thing that there are several of. */
export function unitFilters(app: App, update: () => void): HTMLElement[] {
  const { where } = app.filter;
  return severalOf(app).map((dimension) => {
    const values = app.report.tokens!.values(dimension).map((value) => [String(value), app.t(NAMES[dimension], { number: value })] as const);
    return select([["", app.t(`all_${dimension}`)], ...values], String(where[dimension] ?? ""), (value) => {
      where[dimension] = value === "" ? null : Number(value);
      update();
    }, app.t(`c_${dimension}`));
  });
}

/** By what was compared, and how many pass. */
export function modeLine(app: App): HTMLElement | null {
  const { tokens } = app.report;
  if (!tokens) return null;
  const results = tokens.results;
  let [pass, fail] = [0, 0];
  for (const result of results) {
    if (result === PASS) pass++;
    else if (result === FAIL) fail++;
  }
  return h("p", { class: "modes muted" }, ...[...tokens.modes].sort().map((mode) => h("span", {}, app.t(`mode_${mode}` as Key))),
    h("span", { title: app.t("pass_fail_hint") }, app.t("pass_fail", { pass: format.number(pass), fail: format.number(fail) })));
}

/** How good each rank is in each token: a click chooses one, and `paint` shows which one is chosen. */
export function unitGrid(app: App, chosen: () => void): { element: HTMLElement; paint: () => void } | null {
  const { tokens } = app.report;
  if (!tokens || tokens.units.length < 2) return null;
  const counts = countUnits(app);
  const numbers = new Map(tokens.units.map((unit, number) => [`${lane(unit)} ${unit.token}`, number]));
  const lanes = [...new Map(tokens.units.map((unit) => [lane(unit), unit]))];
  const all = tokens.values("token"), shown = all.slice(0, Math.max(1, Math.floor(MOST_CELLS / lanes.length)));
  const isWide = shown.length > FEW_TOKENS;
  const paint = (): void => {
    for (const button of table.querySelectorAll("button")) {
      const isChosen = button.dataset["unit"] === String(app.unit);
      button.setAttribute("aria-pressed", String(isChosen));
      if (!isChosen) continue;
      const [around, own] = [box.getBoundingClientRect(), button.getBoundingClientRect()];
      if (own.left < around.left || own.right > around.right) box.scrollLeft += own.left - around.left - around.width / 2;
    }
  };
  const cell = (number: number | undefined): HTMLElement => {
    if (number === undefined) return h("td", {});
    const { worst, bad } = counts[number]!;
    return h("td", {}, h("button", { class: `unit level-${LEVELS[worst]!}`, title: unitText(app, tokens.units[number]!), attrs: { type: "button", "data-unit": String(number) },
      onclick: () => { app.unit = number; chosen(); } }, bad ? format.number(bad) : SIGNS[worst]!));
  };
  const head = h("tr", {}, h("th", {}, isWide ? app.t("c_token") : ""), ...shown.map((token) => h("th", {}, isWide ? token : app.t("token", { number: token }))));
  const lines = lanes.map(([key, unit]) => h("tr", {}, h("th", {}, unitText(app, unit, ["rank", "graph"])), ...shown.map((token) => cell(numbers.get(`${key} ${token}`)))));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines));
  const box = h("div", { class: isWide ? "units-scroll wide" : "units-scroll" }, table);
  const hint = app.t("by_unit_hint") + (shown.length < all.length ? ` · ${app.t("first_tokens", { shown: shown.length, all: all.length })}` : "");
  return { element: card(app.t("by_unit"), "units", h("p", { class: "muted hint" }, hint), box), paint };
}

const lane = ({ rank, graph }: Unit): string => `${rank} ${graph}`;

/** For each unit its worst level, and how many of its tensors are bad. */
function countUnits({ report }: App): { worst: number; bad: number }[] {
  const counts = report.tokens!.units.map(() => ({ worst: -1, bad: 0 }));
  for (let row = 0; row < report.count; row++) {
    const level = report.levels[row]!, count = counts[report.unit(row)]!;
    if (level === SUSPICIOUS || level === WRONG) count.bad++;
    if (level !== UNKNOWN) count.worst = Math.max(count.worst, level);
  }
  return counts.map(({ worst, bad }) => ({ worst: worst < 0 ? UNKNOWN : worst, bad }));
}
