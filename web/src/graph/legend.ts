// What the signs of the graph mean, and the facts of an operator under the mouse.
import { LEVELS } from "../data";
import { h } from "../dom";
import * as format from "../format";
import { chip, dot, levelText } from "../parts";
import type { App } from "../state";
import type { Network, Shape } from "./network";

export function legend(app: App, network: Network): HTMLElement {
  const present = new Set(network.operators.map(({ level }) => level));
  const sign = (kind: string, text: string): HTMLElement => h("span", { class: "with-dot" }, h("i", { class: `sign ${kind}` }), text);
  const levels = LEVELS.flatMap((_, level) => (present.has(level) ? [h("span", { class: "with-dot" }, dot(level), levelText(app, level))] : []));
  const some = (isShown: boolean, element: HTMLElement): HTMLElement[] => (isShown ? [element] : []);
  const origins = new Set(network.operators.map(({ origin }) => origin));
  return h("details", { class: "popover graph-legend" }, h("summary", {}, app.t("graph_legend")), h("div", {}, ...levels,
    ...some(origins.has(1), sign("born", app.t("born_sign"))), ...some(origins.has(2), sign("inherited", app.t("inherited_sign"))),
    ...some(origins.has(1), sign("path", app.t("legend_path"))),
    ...some(network.operators.some(({ originals }) => originals.length > 1), h("span", {}, `⊕ ${app.t("legend_fused")}`)),
    ...some(network.edges.some(({ guess }) => guess), sign("guess", app.t("legend_guess"))), h("span", {}, `0.01 ${app.t("legend_value")}`)));
}

/** Name in full, type and numbers. */
export function facts(app: App, network: Network, shape: Shape): (HTMLElement | null)[] {
  if (shape.members.length > 1) return [h("code", {}, shape.label || app.t("folded", { count: shape.members.length })), h("div", {}, chip(app, shape.level, shape.origin)), shape.label ? h("span", {}, app.t("folded", { count: shape.members.length })) : null];
  const operator = network.operators[shape.members[0]!]!;
  const { report } = app;
  const number = (key: "m_relative_euclidean_distance" | "m_cosine", metric: string): HTMLElement | null => {
    const value = report.metric(metric, operator.row);
    return value === null ? null : h("span", {}, `${app.t(key)}: ${metric === "cosine" ? format.cosine(value) : format.number(value, 5)}`);
  };
  const numbers = operator.row < 0 ? [h("span", {}, app.t("not_dumped"))] : [number("m_relative_euclidean_distance", "relative_euclidean_distance"), number("m_cosine", "cosine")];
  return [h("code", {}, operator.name), h("div", {}, chip(app, operator.level, operator.origin), ` ${operator.type}`), ...numbers];
}
