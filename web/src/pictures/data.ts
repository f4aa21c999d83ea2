// Pictures of tensors, as report/payload.py packs them.
import type { Numbers, Packed } from "../arrays";

interface Plane {
  row: number; shape: number[]; labels: string; axes: number[]; extents: [number, number]; cell: [number, number];
  low: number; high: number; lowError: number; highError: number; maxCode: number;
  frameCount: number; outside: number; notFinite: number; sampledShare: number;
}
export interface PackedPicture extends Plane {
  overall: Packed; goldenCounts: Packed; targetCounts: Packed; density: Packed;
  frames: { index: number[]; share: number; golden: Packed; target: Packed; error: Packed }[];
}
/** One plane of both tensors: a code for each cell, row by row. */
export interface Frame { index: number[]; share: number; golden: Uint8Array; target: Uint8Array; error: Uint8Array }
export interface Picture extends Plane { overall: Uint8Array; goldenCounts: Numbers; targetCounts: Numbers; density: Numbers; frames: Frame[] }

export const NAN = 251, INFINITE = 252, NEGATIVE_INFINITE = 253;

export function unpackPicture(packed: PackedPicture, numbers: (packed: Packed) => Numbers): Picture {
  const codes = (array: Packed): Uint8Array => new Uint8Array(numbers(array).buffer);
  return {
    ...packed,
    overall: codes(packed.overall),
    goldenCounts: numbers(packed.goldenCounts),
    targetCounts: numbers(packed.targetCounts),
    density: numbers(packed.density),
    frames: packed.frames.map(({ golden, target, error, ...rest }) => ({ ...rest, golden: codes(golden), target: codes(target), error: codes(error) })),
  };
}

/** The value that a code stands for; NaN and infinities for theirs. */
export function valueOf({ low, high, maxCode }: Picture, code: number): number {
  if (code > maxCode) return code === INFINITE ? Infinity : code === NEGATIVE_INFINITE ? -Infinity : NaN;
  return low + (code / maxCode) * (high - low);
}

/** The error that a code stands for; NaN where one side alone is not finite. */
export function errorOf({ lowError, highError, maxCode }: Picture, code: number): number {
  if (code > maxCode) return NaN;
  return code === 0 ? 0 : lowError * (highError / lowError) ** ((code - 1) / (maxCode - 1));
}

/** The name of an axis: its label, or its number. */
export function axisName({ labels }: Picture, axis: number): string { return labels[axis] ?? `[${axis}]`; }

/** The plane of a frame, as `C 9`; axes of one index are left out. */
export function frameName(picture: Picture, { index }: Frame): string {
  const others = picture.shape.map((_, axis) => axis).filter((axis) => !picture.axes.includes(axis));
  return others.map((axis, n) => (picture.shape[axis]! > 1 ? `${axisName(picture, axis)} ${index[n]}` : "")).filter(Boolean).join(", ");
}

/** The coordinates of a cell in its plane, as `H 4–7, W 0–3`. */
export function cellName(picture: Picture, cell: number): string {
  const [rows, columns] = picture.extents;
  const at = picture.axes.length > 1 ? [Math.floor(cell / columns), cell % columns] : [cell % (rows * columns)];
  const sizes = picture.axes.length > 1 ? picture.cell : [picture.cell[1]];
  return picture.axes.map((axis, n) => {
    const first = at[n]! * sizes[n]!, last = Math.min(first + sizes[n]!, picture.shape[axis]!) - 1;
    return `${axisName(picture, axis)} ${first === last ? first : `${first}–${last}`}`;
  }).join(", ");
}
