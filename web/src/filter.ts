// Which rows are shown, and in which order.
import type { App } from "./state";
import { UNKNOWN } from "./data";
import { DIMENSIONS, type Dimension } from "./tokens";

export function filtered(app: App): Int32Array {
  const { report, filter } = app;
  const texts = report.texts("en");
  const wanted = filter.text.trim().toLowerCase();
  // Texts repeat: each is looked through once, as it is and as it is shown.
  const shown = app.language === "zh" && /[^ -~]/.test(wanted) ? report.texts("zh") : texts;
  const fits = wanted ? texts.map((text, number) => text.toLowerCase().includes(wanted) || shown[number]!.toLowerCase().includes(wanted)) : null;
  const columns = ["target", "golden", "operator", "goldenTensor", "reason", "why"].map((name) => report.row(name).numbers);
  const types = report.row("type").numbers, slots = report.row("slot").numbers;
  const units = wantedUnits(app);
  const found = new Int32Array(report.count);
  let count = 0;
  for (let row = 0; row < report.count; row++) {
    const level = report.levels[row]!;
    // What could not be compared has a view of its own; here it is shown when it is asked for.
    if (filter.levels.size ? !filter.levels.has(level) : level === UNKNOWN && !wanted) continue;
    if (units && !units[report.unit(row)]) continue;
    if (filter.type && texts[types[row]!] !== filter.type) continue;
    if (filter.outputs && slots[row] !== 1) continue;
    if (fits && !columns.some((column) => fits[column[row]!]) && !report.tensor(row).toLowerCase().includes(wanted)) continue;
    found[count++] = row;
  }
  return found.subarray(0, count);
}

/** Which tokens are wanted; `null` for all of them. */
function wantedUnits({ report, filter: { where } }: App): boolean[] | null {
  const chosen = DIMENSIONS.filter((dimension) => where[dimension] !== null);
  if (!report.tokens || !chosen.length) return null;
  return report.tokens.units.map((unit) => chosen.every((dimension) => unit[dimension] === where[dimension]));
}

/** Rows by a column; what has no number comes last, either way. */
export function sorted(app: App, rows: Int32Array): Int32Array {
  const { column, down } = app.sort;
  if (!column) return rows;
  const keys = column in TEXTS ? textKeys(app, rows, TEXTS[column]!) : numberKeys(app, rows, column);
  const sign = down ? -1 : 1;
  const order = Int32Array.from(rows.keys());
  order.sort((a, b) => {
    const x = keys[a]!, y = keys[b]!;
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return sign * (x - y) || a - b;
  });
  return order.map((place) => rows[place]!);
}

const TEXTS: Record<string, string> = { operator: "target", type: "type", tensor: "operator", dtype: "targetType", shape: "shape", reason: "reason" };
const METRICS: Record<string, string> = { cosine: "cosine", distance: "relative_euclidean_distance", relative: "max_relative_error", ulp: "max_ulp" };

function textKeys(app: App, rows: Int32Array, name: string): Float64Array {
  const texts = app.report.texts(app.language);
  const numbers = app.report.row(name).numbers;
  const used = [...new Set(Array.from(rows, (row) => numbers[row]!))];
  const collator = new Intl.Collator("en", { numeric: true });
  used.sort((a, b) => collator.compare(texts[a]!, texts[b]!));
  const rank = new Map(used.map((text, place) => [text, place]));
  return Float64Array.from(rows, (row) => rank.get(numbers[row]!)!);
}

function numberKeys(app: App, rows: Int32Array, column: string): Float64Array {
  const { report } = app;
  if (column === "level") return Float64Array.from(rows, (row) => (report.levels[row] === UNKNOWN ? -1 : report.levels[row]!));
  if (column === "index") return Float64Array.from(rows);
  const { tokens } = report;
  if (tokens && DIMENSIONS.includes(column as Dimension)) return Float64Array.from(rows, (row) => tokens.of(row)[column as Dimension] ?? NaN);
  if (tokens && column === "result") return Float64Array.from(rows, (row) => tokens.column("result").numbers[row]!);
  if (tokens && column.endsWith("_relative")) return Float64Array.from(rows, (row) => tokens.figure("statistics", column, row) ?? NaN);
  // NaN is as bad as can be; what was not measured comes last.
  const worst = column === "cosine" ? -Infinity : Infinity;
  if (!Object.hasOwn(METRICS, column)) return Float64Array.from(rows);
  return Float64Array.from(rows, (row) => {
    const value = report.metric(METRICS[column]!, row);
    return value === null ? NaN : Number.isNaN(value) ? worst : value;
  });
}
