// Numbers, shapes and places for people.
export function number(value: number | null | undefined, digits = 6): string {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US").replaceAll(",", "\u202f");
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.max(digits - 3, 2)).replace("e", " e");
  return trimmed(value.toPrecision(digits));
}

/** A cosine needs its last digits: 0.99999998 is not 1. */
export function cosine(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return number(value);
  if (value === 1) return "1";
  const away = 1 - value;
  return away > 0 && away < 1e-6 ? `1 − ${away.toExponential(1)}` : value.toFixed(6);
}

export function percent(share: number | null): string {
  if (share === null || Number.isNaN(share)) return number(share);
  const value = share * 100;
  if (value === 0 || value === 100) return `${value} %`;
  return value < 0.01 ? "< 0.01 %" : `${trimmed(value.toPrecision(3))} %`;
}

export function shape(text: string): number[] {
  return text.replace(/[[\]\s]/g, "").split(",").filter(Boolean).map(Number);
}

/** The coordinates of an element in row-major order. */
export function place(index: number | null, extents: number[]): string {
  if (index === null) return "–";
  const total = extents.reduce((product, extent) => product * extent, 1);
  if (index < 0 || index >= total) return `[${index}]`;
  const found: number[] = [];
  for (const extent of [...extents].reverse()) {
    found.unshift(index % extent);
    index = Math.floor(index / extent);
  }
  return `[${found.join(", ")}]`;
}

export function address(value: number | null): string {
  return value === null || value === 0 ? "–" : `0x${value.toString(16)}`;
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
