// From numbers to pixels, and round numbers between.
export interface Scale { at: (value: number) => number; domain: [number, number]; log: boolean }

export function scaleOf(domain: [number, number], range: [number, number], log: boolean): Scale {
  const map = log ? Math.log10 : (value: number) => value;
  const [low, high] = [map(domain[0]), map(domain[1])];
  const at = (value: number): number => {
    // Zero has no logarithm: it lies on the axis.
    const share = log && value <= 0 ? 0 : (map(value) - low) / (high - low || 1);
    return range[0] + Math.max(-0.02, Math.min(1.02, share)) * (range[1] - range[0]);
  };
  return { at, domain, log };
}

export function ticks([low, high]: [number, number], count: number): number[] {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? power;
  const [first, last] = [Math.ceil(low / step), Math.floor(high / step + 1e-9)];
  // Numbers with less between them than their last digit have no round ones there.
  if (!Number.isFinite(step) || !Number.isSafeInteger(first) || !Number.isSafeInteger(last)) return low === high ? [low] : [low, high];
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, n) => Number(((first + n) * step).toPrecision(12)));
}

/** The powers of ten around two positive numbers, as far as there are any. */
export function decades(low: number, high: number): [number, number] {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high * 1.0001))];
  return [10 ** Math.max(first, -323), 10 ** Math.min(last, 308)];
}

export function logTicks([low, high]: [number, number]): number[] {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / 8));
  const found = [];
  for (let exponent = first; exponent <= last; exponent += step) found.push(10 ** exponent);
  return found;
}
