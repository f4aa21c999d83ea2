// Colours of pictures: scales from dark to light or light to dark, and those of cells that are not finite.
import { INFINITE, NAN, NEGATIVE_INFINITE } from "./data";

export type Colour = [red: number, green: number, blue: number];
export type Theme = "light" | "dark";

const hex = (text: string): Colour[] => text.split(" ").map((each) => [0, 2, 4].map((at) => parseInt(each.slice(at, at + 2), 16)) as Colour);
const VALUES = hex("440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725");
const ERRORS = { light: hex("fbf6e9 fde3a8 f9b36b ec6a43 c22b3d 6d0e3a"), dark: hex("2a2230 5a1f42 97244a d6483f f7964b fdecb0") };
const DENSITY = { light: hex("d5e2fb 8fb0f3 2a5bd7 0b2a80 07153f"), dark: hex("22345c 3d62b8 82a8ff c6d8ff ffffff") };
const EQUAL = { light: hex("eef1f5")[0]!, dark: hex("1b232e")[0]! };
export const SPECIAL: Record<number, Colour> = { [NAN]: [255, 43, 214], [INFINITE]: [255, 140, 0], [NEGATIVE_INFINITE]: [0, 200, 255] };

function between(stops: Colour[], share: number): Colour {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1), n = Math.min(Math.floor(at), stops.length - 2);
  return stops[n]!.map((from, part) => Math.round(from + (at - n) * (stops[n + 1]![part]! - from))) as Colour;
}

export const valueColour = (share: number): Colour => between(VALUES, share);
export const errorColour = (share: number, theme: Theme): Colour => between(ERRORS[theme], share);
export const densityColour = (share: number, theme: Theme): Colour => between(DENSITY[theme], share);
export const equalColour = (theme: Theme): Colour => EQUAL[theme];
export const css = ([red, green, blue]: Colour): string => `rgb(${red} ${green} ${blue})`;
