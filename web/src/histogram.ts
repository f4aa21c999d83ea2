// How the errors of a tensor are spread: a bar for each bin, the first one for equal elements.
import { h } from "./dom";
import * as format from "./format";
import type { App } from "./state";

export function histogram(app: App, bins: number[], edges: number[], isRelative: boolean): HTMLElement {
  const total = bins.reduce((sum, bin) => sum + bin, 0) || 1;
  // Few elements that are far off matter most: the square root keeps them visible.
  const tallest = Math.sqrt(Math.max(...bins) / total);
  const bars = bins.map((bin, n) => {
    const fill = h("span", { class: `fill ${severity(n, edges, isRelative)}` });
    fill.style.height = bin ? `max(2px, ${(100 * Math.sqrt(bin / total)) / tallest}%)` : "0";
    return h("div", { class: "hbar", title: `${binName(app, n, edges)}: ${format.number(bin)} (${format.percent(bin / total)})` }, fill);
  });
  const step = Math.ceil(bins.length / 7);
  const labels = bins.map((_, n) => h("span", {}, n === 0 ? app.t("equal") : n > 1 && n % step === 1 ? edge(edges[n - 2]!) : ""));
  return h("div", { class: "histogram" }, h("div", { class: "hbars" }, ...bars), h("div", { class: "hlabels" }, ...labels));
}

function binName(app: App, bin: number, edges: number[]): string {
  if (bin === 0) return app.t("equal");
  if (bin === 1) return `${app.t("below")} ${edge(edges[0] ?? 0)}`;
  const from = edges[bin - 2], to = edges[bin - 1];
  return to === undefined ? `≥ ${edge(from ?? 0)}` : `${edge(from ?? 0)} – ${edge(to)}`;
}

function edge(value: number): string {
  if (value >= 1000) return value >= 1e6 ? `${Math.round(value / 1e5) / 10}M` : `${Math.round(value / 1e3)}k`;
  return value < 0.01 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
}

function severity(bin: number, edges: number[], isRelative: boolean): string {
  const from = bin < 2 ? 0 : (edges[bin - 2] ?? 0);
  if (isRelative) return from >= 0.01 ? "level-wrong" : from >= 0.001 ? "level-suspicious" : "level-exact";
  return from >= 64 ? "level-wrong" : from >= 4 ? "level-suspicious" : "level-exact";
}
