// A layered drawing of a network: operators from top to bottom in the order of execution, in columns as a text.
//
// Longest paths give the layers, mean positions of neighbours the order within them, and the best positions that keep
// that order and the distances are found exactly, layer by layer (isotonic regression). Then the layers are wrapped.
/** `aspect`: how many nodes fit beside each other in a view that shows one layer. */
export interface LayoutJob { count: number; from: Int32Array; to: Int32Array; aspect: number }
/** Positions of nodes in units of nodes and layers, for each edge the places between its ends, and the left edges of the columns. */
export interface Layout { x: Float32Array; y: Float32Array; bends: Float32Array; bendStart: Int32Array; columns: Float32Array }

// Room between columns, for the edges that go from the end of one to the start of the next.
export const GUTTER = 0.6;
const MOST_COLUMNS = 48, LEAST_ROWS = 6;
// Columns may be a little shorter, to end where few edges are cut.
const SHORTER = 0.15;
const SWEEPS = 6;
// How far, in nodes, the middle of `2 * AROUND + 1` layers may drift.
const DRIFT = 3, AROUND = 12;
// A longer edge is drawn straight: nobody can follow it anyhow, and it would cost a place in every layer.
const LONGEST = 24;

export function layOut({ count, from, to, aspect }: LayoutJob): Layout {
  const layer = layersOf(count, from, to);
  const net = withPlaces(count, from, to, layer);
  order(net);
  const x = place(net);
  straighten(net, x);
  const bendStart = new Int32Array(from.length + 1);
  for (let edge = 0; edge < from.length; edge++) bendStart[edge + 1] = bendStart[edge]! + net.bends[edge]!.length;
  const bends = new Float32Array(2 * bendStart[from.length]!);
  net.bends.flat().forEach((node, n) => {
    bends[2 * n] = x[node]!;
    bends[2 * n + 1] = net.layerOf[node]!;
  });
  return wrapped({ x: x.slice(0, count), y: Float32Array.from(layer), bends, bendStart, columns: new Float32Array(1) }, aspect);
}

interface Extent { left: number; right: number; places: number }

/** The same drawing in as many columns as let it fill the view best. */
function wrapped(layout: Layout, aspect: number): Layout {
  const extents = extentsOf(layout);
  let best = { scale: 0, starts: [0] };
  for (let count = 1; count <= MOST_COLUMNS && (count === 1 || extents.length / count >= LEAST_ROWS); count++) {
    const starts = startsOf(extents, Math.ceil(extents.length / count));
    const parts = starts.map((start, n) => extents.slice(start, starts[n + 1] ?? extents.length));
    const wide = parts.reduce((sum, part) => sum + width(part) + GUTTER, -GUTTER);
    const scale = Math.min(aspect / wide, 1 / Math.max(...parts.map((part) => part.length)));
    if (scale > best.scale * 1.05) best = { scale, starts };
  }
  return moved(layout, extents, best.starts);
}

function extentsOf({ x, y, bends }: Layout): Extent[] {
  const found: Extent[] = [];
  const add = (at: number, layer: number): void => {
    while (found.length <= layer) found.push({ left: Infinity, right: -Infinity, places: 0 });
    const extent = found[layer]!;
    found[layer] = { left: Math.min(extent.left, at), right: Math.max(extent.right, at), places: extent.places + 1 };
  };
  for (let node = 0; node < x.length; node++) add(x[node]!, y[node]!);
  for (let n = 0; n < bends.length; n += 2) add(bends[n]!, bends[n + 1]!);
  return found;
}

/** First layers of columns of at most `rows` layers, each after a narrow layer. */
function startsOf(extents: Extent[], rows: number): number[] {
  const starts = [0];
  for (let start = rows; start < extents.length; start += rows) {
    let narrowest = start;
    for (let at = start; at > start - rows * SHORTER; at--) if (extents[at - 1]!.places < extents[narrowest - 1]!.places) narrowest = at;
    starts.push(start = narrowest);
  }
  return starts;
}

const width = (part: Extent[]): number => Math.max(...part.map(({ right }) => right)) - Math.min(...part.map(({ left }) => left)) + 1;

function moved({ x, y, bends, bendStart }: Layout, extents: Extent[], starts: number[]): Layout {
  const shifts: number[] = [], columns: number[] = [];
  let edge = 0;
  starts.forEach((start, n) => {
    const part = extents.slice(start, starts[n + 1] ?? extents.length);
    columns.push(edge);
    shifts.push(part.length ? edge - Math.min(...part.map(({ left }) => left)) : 0);
    edge += (part.length ? width(part) : 0) + GUTTER;
  });
  const columnOf = new Int32Array(extents.length);
  starts.forEach((start, n) => columnOf.fill(n, start));
  for (let node = 0; node < x.length; node++) {
    const column = columnOf[y[node]!]!;
    x[node]! += shifts[column]!;
    y[node]! -= starts[column]!;
  }
  for (let n = 0; n < bends.length; n += 2) {
    const column = columnOf[bends[n + 1]!]!;
    bends[n]! += shifts[column]!;
    bends[n + 1]! -= starts[column]!;
  }
  return { x, y, bends, bendStart, columns: Float32Array.from(columns) };
}

/** The layer of each node, one below the lowest of those that feed it. An edge that goes back is taken the other way. */
export function layersOf(count: number, from: Int32Array, to: Int32Array): Int32Array {
  const layer = new Int32Array(count);
  const feeds: number[][] = Array.from({ length: count }, () => []);
  const fed = new Uint8Array(count);
  for (let edge = 0; edge < from.length; edge++) {
    const [low, high] = [Math.min(from[edge]!, to[edge]!), Math.max(from[edge]!, to[edge]!)];
    if (low === high) continue;
    feeds[low]!.push(high);
    fed[high] = 1;
  }
  // Nodes come in the order of execution, so every edge is seen after the layer of its start is known.
  for (let node = 0; node < count; node++) for (const next of feeds[node]!) layer[next] = Math.max(layer[next]!, layer[node]! + 1);
  // What nothing feeds stands right above what it feeds.
  for (let node = 0; node < count; node++) {
    if (!fed[node] && feeds[node]!.length) layer[node] = Math.min(...feeds[node]!.map((next) => layer[next]!)) - 1;
  }
  return layer;
}

interface Net { layers: number[][]; layerOf: number[]; up: number[][]; down: number[][]; bends: number[][] }

/** The network with a place in every layer that an edge passes. */
function withPlaces(count: number, from: Int32Array, to: Int32Array, layer: Int32Array): Net {
  const layerOf = Array.from(layer);
  const up: number[][] = layerOf.map(() => []), down: number[][] = layerOf.map(() => []);
  const bends: number[][] = [];
  const link = (high: number, low: number): void => { down[high]!.push(low); up[low]!.push(high); };
  for (let edge = 0; edge < from.length; edge++) {
    const [high, low] = layer[from[edge]!]! <= layer[to[edge]!]! ? [from[edge]!, to[edge]!] : [to[edge]!, from[edge]!];
    const span = layer[low]! - layer[high]!;
    const between: number[] = [];
    if (span > 0 && span <= LONGEST) {
      let last = high;
      for (let at = layer[high]! + 1; at < layer[low]!; at++) {
        layerOf.push(at);
        up.push([]);
        down.push([]);
        between.push(layerOf.length - 1);
        link(last, layerOf.length - 1);
        last = layerOf.length - 1;
      }
      link(last, low);
    }
    bends.push(high === from[edge] ? between : between.slice().reverse());
  }
  const layers: number[][] = Array.from({ length: (count ? Math.max(...chunkMax(layerOf)) : 0) + 1 }, () => []);
  layerOf.forEach((at, node) => layers[at]!.push(node));
  return { layers, layerOf, up, down, bends };
}

/** Largest numbers of parts: a call takes only so many arguments. */
function chunkMax(numbers: number[]): number[] {
  const found = [];
  for (let at = 0; at < numbers.length; at += 10000) found.push(Math.max(...numbers.slice(at, at + 10000)));
  return found;
}

function order(net: Net): void {
  const rank = new Float64Array(net.layerOf.length);
  for (const nodes of net.layers) nodes.forEach((node, n) => (rank[node] = n));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const downwards = sweep % 2 === 0;
    const layers = downwards ? net.layers : [...net.layers].reverse();
    for (const nodes of layers) {
      if (nodes.length < 2) continue;
      const wish = new Map(nodes.map((node) => [node, mean((downwards ? net.up : net.down)[node]!, rank, rank[node]!)]));
      nodes.sort((a, b) => wish.get(a)! - wish.get(b)! || rank[a]! - rank[b]!);
      nodes.forEach((node, n) => (rank[node] = n));
    }
  }
}

function place(net: Net): Float32Array {
  const x = new Float32Array(net.layerOf.length);
  for (const nodes of net.layers) nodes.forEach((node, n) => (x[node] = n - (nodes.length - 1) / 2));
  for (let sweep = 0; sweep < SWEEPS + 2; sweep++) {
    const downwards = sweep % 2 === 0;
    for (const nodes of downwards ? net.layers : [...net.layers].reverse()) {
      const wish = nodes.map((node) => {
        const near = sweep < SWEEPS ? (downwards ? net.up : net.down)[node]! : [...net.up[node]!, ...net.down[node]!];
        return mean(near, x, x[node]!);
      });
      spaced(wish).forEach((at, n) => (x[nodes[n]!] = at));
    }
  }
  // On half places chains are straight, and nodes as far apart as before.
  return x.map((at) => Math.round(2 * at) / 2);
}

/** Keep a long drawing upright: where the middle of its layers has drifted far to one side, what follows moves back. */
function straighten({ layers }: Net, x: Float32Array): void {
  const middles = layers.map((nodes) => nodes.reduce((sum, node) => sum + x[node]!, 0) / nodes.length);
  let base = Math.round(average(middles, 0));
  layers.forEach((nodes, layer) => {
    const middle = average(middles, layer);
    if (Math.abs(middle - base) > DRIFT) base = Math.round(middle);
    for (const node of nodes) x[node]! -= base;
  });
}

/** The mean of the numbers around a place. */
function average(values: number[], place: number): number {
  const near = values.slice(Math.max(0, place - AROUND), place + AROUND + 1).filter((value) => !Number.isNaN(value));
  return near.reduce((sum, value) => sum + value, 0) / Math.max(near.length, 1);
}

/** The nearest positions to those wished for that are at least 1 apart and in the same order. */
export function spaced(wish: number[]): number[] {
  const blocks: { sum: number; count: number }[] = [];
  wish.forEach((at, n) => {
    blocks.push({ sum: at - n, count: 1 });
    while (blocks.length > 1) {
      const [before, last] = blocks.slice(-2) as [(typeof blocks)[0], (typeof blocks)[0]];
      if (before.sum / before.count <= last.sum / last.count) break;
      blocks.splice(-2, 2, { sum: before.sum + last.sum, count: before.count + last.count });
    }
  });
  return blocks.flatMap(({ sum, count }) => Array.from({ length: count }, () => sum / count)).map((at, n) => at + n);
}

function mean(nodes: number[], values: Float32Array | Float64Array, otherwise: number): number {
  if (!nodes.length) return otherwise;
  let sum = 0;
  for (const node of nodes) sum += values[node]!;
  return sum / nodes.length;
}
