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
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}

export function logTicks([low, high]: [number, number]): number[] {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / 8));
  const found = [];
  for (let exponent = first; exponent <= last; exponent += step) found.push(10 ** exponent);
  return found;
}
