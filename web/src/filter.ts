// Which rows are shown, and in which order. Only what the report itself does not know of its rows is looked up in their blocks.
import type { Block } from "./block";
import { UNKNOWN } from "./data";
import type { App } from "./state";
import { DIMENSIONS, type Dimension } from "./tokens";

const TEXTS: Record<string, string> = { operator: "target", type: "type", tensor: "operator", dtype: "targetType", shape: "shape", reason: "reason" };
const METRICS: Record<string, string> = { cosine: "cosine", distance: "relative_euclidean_distance", relative: "max_relative_error", ulp: "max_ulp" };
const SEARCHED = ["target", "golden", "operator", "goldenTensor", "reason", "why"];

/** The rows that fit, in the order that is chosen; `null` when they are no longer wanted. */
export async function search(app: App, isWanted: () => boolean, progress: (share: number) => void): Promise<Int32Array | null> {
  const rows = candidates(app);
  const key = keyOf(app);
  const isSearched = app.filter.text.trim() !== "" || app.filter.type !== "";
  if (!isSearched && !key.ofBlock) return ordered(app, rows, Float64Array.from(rows, key.ofRow));
  const found = new Int32Array(rows.length), keys = new Float64Array(rows.length);
  let count = 0, next = 0;
  const within = (_: number, end: number): boolean => next < rows.length && rows[next]! < end;
  for await (const block of app.report.blocks(within)) {
    if (!isWanted()) return null;
    progress(next / rows.length);
    const fits = fitting(app, block), ofBlock = key.ofBlock?.(block) ?? key.ofRow;
    for (; next < rows.length && rows[next]! < block.first + block.count; next++) {
      const row = rows[next]!;
      if (!fits(row - block.first, row)) continue;
      found[count] = row;
      keys[count++] = ofBlock(row);
    }
  }
  return ordered(app, found.subarray(0, count), key.ranked(keys.subarray(0, count)));
}

/** The rows that fit as far as the report itself knows. */
function candidates(app: App): Int32Array {
  const { report, filter } = app;
  const units = wantedUnits(app), isSearched = filter.text.trim() !== "";
  const found = new Int32Array(report.count);
  let count = 0;
  for (let row = 0; row < report.count; row++) {
    const level = report.levels[row]!;
    // What could not be compared has a view of its own; here it is shown when it is asked for.
    if (filter.levels.size ? !filter.levels.has(level) : level === UNKNOWN && !isSearched) continue;
    if (units && !units[report.unit(row)]) continue;
    if (filter.outputs && report.slots[row] !== 1) continue;
    found[count++] = row;
  }
  return found.subarray(0, count);
}

/** Whether rows of a block have the type and the text that are searched. */
function fitting(app: App, block: Block): (place: number, row: number) => boolean {
  const { filter, report } = app;
  const wanted = filter.text.trim().toLowerCase(), inChinese = app.language === "zh" && /[^ -~]/.test(wanted);
  const types = block.row("type").numbers, columns = SEARCHED.map((name) => block.row(name).numbers);
  // Texts repeat: each is looked through once, as it is and as it is shown.
  const known = new Map<number, boolean>();
  const fits = (text: number): boolean => {
    let found = known.get(text);
    if (found === undefined) known.set(text, (found = block.textOf(text).toLowerCase().includes(wanted) || (inChinese && block.textOf(text, "zh").toLowerCase().includes(wanted))));
    return found;
  };
  return (place, row) => {
    if (filter.type && block.textOf(types[place]!) !== filter.type) return false;
    return !wanted || columns.some((column) => fits(column[place]!)) || (wanted.includes(":") && report.tensor(row).toLowerCase().includes(wanted));
  };
}

/** Which tokens are wanted; `null` for all of them. */
function wantedUnits({ report, filter: { where } }: App): boolean[] | null {
  const chosen = DIMENSIONS.filter((dimension) => where[dimension] !== null);
  if (!report.tokens || !chosen.length) return null;
  return report.tokens.units.map((unit) => chosen.every((dimension) => unit[dimension] === where[dimension]));
}

/** Rows by their keys; what has no number comes last, either way. */
function ordered(app: App, rows: Int32Array, keys: Float64Array): Int32Array {
  const sign = app.sort.down ? -1 : 1;
  const order = Int32Array.from(rows.keys());
  order.sort((a, b) => {
    const x = keys[a]!, y = keys[b]!;
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return sign * (x - y) || a - b;
  });
  return order.map((place) => rows[place]!);
}

/** By what rows are sorted: a number of each row, which may have to be looked up in its block. */
interface SortKey { ofRow: (row: number) => number; ofBlock?: (block: Block) => (row: number) => number; ranked: (keys: Float64Array) => Float64Array }

function keyOf(app: App): SortKey {
  const { report, sort: { column } } = app;
  const { tokens } = report;
  const known = (ofRow: (row: number) => number): SortKey => ({ ofRow, ranked: (keys) => keys });
  const read = (ofRow: (row: number) => number): SortKey => ({ ofRow, ofBlock: () => ofRow, ranked: (keys) => keys });
  if (Object.hasOwn(TEXTS, column)) return textKey(app, TEXTS[column]!);
  if (column === "level") return known((row) => (report.levels[row] === UNKNOWN ? -1 : report.levels[row]!));
  if (tokens && DIMENSIONS.includes(column as Dimension)) return known((row) => tokens.of(row)[column as Dimension] ?? NaN);
  if (tokens && column === "result") return known((row) => tokens.results[row]!);
  if (tokens && column.endsWith("_relative")) return read((row) => tokens.figure("statistics", column, row) ?? NaN);
  if (!Object.hasOwn(METRICS, column)) return known((row) => row);
  // NaN is as bad as can be; what was not measured comes last.
  const worst = column === "cosine" ? -Infinity : Infinity;
  return read((row) => {
    const value = report.metric(METRICS[column]!, row);
    return value === null ? NaN : Number.isNaN(value) ? worst : value;
  });
}

/** Texts are numbered as they are met, and ranked in the end. */
function textKey(app: App, name: string): SortKey {
  const numbers = new Map<string, number>();
  const ofBlock = (block: Block): ((row: number) => number) => {
    const texts = block.row(name).numbers, known = new Map<number, number>();
    return (row) => {
      const text = texts[row - block.first]!;
      let found = known.get(text);
      if (found === undefined) {
        const shown = block.textOf(text, app.language);
        found = numbers.get(shown) ?? numbers.size;
        numbers.set(shown, found);
        known.set(text, found);
      }
      return found;
    };
  };
  const ranked = (keys: Float64Array): Float64Array => {
    const collator = new Intl.Collator("en", { numeric: true });
    const ranks = new Float64Array(numbers.size);
    [...numbers].sort(([a], [b]) => collator.compare(a, b)).forEach(([, number], rank) => (ranks[number] = rank));
    return keys.map((number) => ranks[number]!);
  };
  return { ofRow: () => NaN, ofBlock, ranked };
}
