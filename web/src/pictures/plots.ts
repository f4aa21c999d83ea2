// Plots of the values of both sides: overlaid histograms, and their density with the diagonal.
import { h } from "../dom";
import * as format from "../format";
import type { App } from "../state";
import type { Picture } from "./data";
import { densityBin, densityImage } from "./image";
import { svg } from "./svg";

const WIDTH = 512, HEIGHT = 200;

/** Golden and target values in bins; square roots of the counts keep the ends visible. */
export function valueHistogram(app: App, picture: Picture): HTMLElement {
  const { goldenCounts, targetCounts, low, high } = picture;
  const bins = goldenCounts.length, most = Math.sqrt(Math.max(...goldenCounts, ...targetCounts)) || 1;
  const x = (bin: number): number => (bin / bins) * WIDTH;
  const y = (count: number): number => HEIGHT - (Math.sqrt(count) / most) * (HEIGHT - 6);
  const steps = (counts: ArrayLike<number>): string => Array.from(counts, (count, bin) => `L${x(bin)} ${y(count)}L${x(bin + 1)} ${y(count)}`).join("");
  const path = (counts: ArrayLike<number>, name: string): SVGElement => svg("path", { class: name, d: `M0 ${HEIGHT}${steps(counts)}L${WIDTH} ${HEIGHT}Z`, "vector-effect": "non-scaling-stroke" });
  const label = app.t("p_histogram_text", { low: format.number(low, 4), high: format.number(high, 4) });
  const marker = svg("rect", { class: "bin", y: 0, width: WIDTH / bins, height: HEIGHT, visibility: "hidden" });
  const plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, marker, path(goldenCounts, "golden"), path(targetCounts, "target"));
  const readout = h("p", { class: "readout", attrs: { "aria-live": "polite" } }, label);
  plot.addEventListener("pointermove", (event) => {
    const bin = Math.min(Math.floor((event.offsetX / plot.clientWidth) * bins), bins - 1);
    if (bin < 0) return;
    marker.setAttribute("x", String(x(bin)));
    marker.setAttribute("visibility", "visible");
    readout.textContent = app.t("p_bin", { range: binRange(picture, bin, bins), golden: format.number(goldenCounts[bin]), target: format.number(targetCounts[bin]) });
  });
  plot.addEventListener("pointerleave", () => {
    marker.setAttribute("visibility", "hidden");
    readout.textContent = label;
  });
  const key = h("p", { class: "picture-key" }, h("span", { class: "swatch golden" }), app.t("golden"), h("span", { class: "swatch target" }), app.t("target"));
  return h("figure", { class: "value-histogram" }, h("figcaption", {}, app.t("p_histogram")), plot, ends(low, high), key, readout);
}

const ends = (low: number, high: number): HTMLElement =>
  h("div", { class: "ends num" }, h("span", {}, format.number(low, 4)), h("span", {}, format.number((low + high) / 2, 3)), h("span", {}, format.number(high, 4)));

function binRange({ low, high }: Picture, bin: number, bins: number): string {
  const at = (n: number): string => format.number(low + (n / bins) * (high - low), 4);
  return `${at(bin)} … ${at(bin + 1)}`;
}

/** Share of the elements whose values are in the same bin, which the diagonal shows. */
function onDiagonal({ density }: Picture): number {
  const bins = Math.round(Math.sqrt(density.length));
  let same = 0, all = 0;
  for (let bin = 0; bin < density.length; bin++) {
    all += density[bin]!;
    if (Math.floor(bin / bins) === bin % bins) same += density[bin]!;
  }
  return all ? same / all : 0;
}

export function densityPlot(app: App, picture: Picture): HTMLElement {
  const { density, low, high } = picture;
  const bins = Math.round(Math.sqrt(density.length));
  const label = app.t("p_density_text", { share: format.percent(onDiagonal(picture)) });
  const canvas = densityImage(picture, app.theme, label);
  const readout = h("p", { class: "readout", attrs: { "aria-live": "polite" } }, label);
  canvas.addEventListener("pointermove", (event) => {
    const column = Math.floor((event.offsetX / canvas.clientWidth) * bins), row = Math.floor((event.offsetY / canvas.clientHeight) * bins);
    if (column < 0 || row < 0 || column >= bins || row >= bins) return;
    const bin = densityBin(row * bins + column, bins);
    readout.textContent = app.t("p_pair", { golden: binRange(picture, column, bins), target: binRange(picture, bins - 1 - row, bins), count: format.number(density[bin]) });
  });
  canvas.addEventListener("pointerleave", () => { readout.textContent = label; });
  return h("figure", { class: "density" }, h("figcaption", {}, app.t("p_density")),
    h("div", { class: "density-plot" },
      h("span", { class: "axis-y muted" }, `${app.t("target")} →`),
      h("div", { class: "square" }, canvas, diagonal()),
      h("span", { class: "axis-x muted" }, h("span", { class: "num" }, format.number(low, 3)), `${app.t("golden")} →`, h("span", { class: "num" }, format.number(high, 3)))),
    readout);
}

export function diagonal(): SVGElement {
  return svg("svg", { class: "diagonal", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("line", { x1: 0, y1: 1, x2: 1, y2: 0, "vector-effect": "non-scaling-stroke" }));
}
