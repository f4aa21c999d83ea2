// Images of cells: a pixel for each, which the browser enlarges.
import { h } from "../dom";
import { NAN, type Picture } from "./data";
import { type Colour, SPECIAL, type Theme, css, densityColour, equalColour, errorColour, valueColour } from "./palette";

const LEAST_RATIO = 0.75, MOST_RATIO = 8;

/** An image of some columns and rows; `colour` is that of a cell, `null` for none. */
export function image(columns: number, rows: number, colour: (cell: number) => Colour | null, label: string): HTMLCanvasElement {
  const canvas = h("canvas", { class: "cells", attrs: { role: "img", "aria-label": label, width: String(columns), height: String(rows) } });
  canvas.style.aspectRatio = String(Math.min(Math.max(columns / rows, LEAST_RATIO), MOST_RATIO));
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(columns, rows);
  for (let cell = 0; cell < columns * rows; cell++) {
    const found = colour(cell);
    if (found) pixels.data.set([...found, 255], 4 * cell);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

const cells = (picture: Picture, codes: Uint8Array, colour: (code: number) => Colour, label: string): HTMLCanvasElement =>
  image(picture.extents[1], picture.extents[0], (cell) => colour(codes[cell]!), label);

export function valueImage(picture: Picture, codes: Uint8Array, label: string): HTMLCanvasElement {
  return cells(picture, codes, (code) => SPECIAL[code] ?? valueColour(code / picture.maxCode), label);
}

export function errorImage(picture: Picture, codes: Uint8Array, theme: Theme, label: string): HTMLCanvasElement {
  const colour = (code: number): Colour => (code > picture.maxCode ? SPECIAL[NAN]! : code ? errorColour((code - 1) / (picture.maxCode - 1), theme) : equalColour(theme));
  return cells(picture, codes, colour, label);
}

/** Golden values to the right, target values upwards; counts on a logarithmic scale. */
export function densityImage({ density }: Picture, theme: Theme, label: string): HTMLCanvasElement {
  const bins = Math.round(Math.sqrt(density.length)), most = Math.log1p(Math.max(...density)) || 1;
  return image(bins, bins, (cell) => {
    const count = density[densityBin(cell, bins)]!;
    return count ? densityColour(Math.log1p(count) / most, theme) : null;
  }, label);
}

/** The bin of a pixel: bins are stored golden value by golden value, and images begin at the top. */
export const densityBin = (cell: number, bins: number): number => (cell % bins) * bins + (bins - 1 - Math.floor(cell / bins));

/** A bar of colours with the numbers at its ends. */
export function colourBar(colour: (share: number) => Colour, low: string, high: string, className = ""): HTMLElement {
  const bar = h("span", { class: "ramp" });
  bar.style.background = `linear-gradient(90deg, ${Array.from({ length: 11 }, (_, n) => css(colour(n / 10))).join(", ")})`;
  return h("div", { class: `ramp-line ${className}` }, h("span", { class: "num" }, low), bar, h("span", { class: "num" }, high));
}
