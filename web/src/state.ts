// What the page knows and what is chosen on it.
import { type Report, SUSPICIOUS, UNKNOWN, WRONG } from "./data";
import { type Encoded, joined, sentence } from "./sentences";
import { CHECKSUMS, type Dimension, REAL } from "./tokens";
import { type Key, type Language, texts } from "./texts";

export interface Filter { text: string; levels: Set<number>; type: string; outputs: boolean; where: Record<Dimension, number | null> }
export interface View {
  element: HTMLElement;
  shown?: () => void;
  key?: (key: string) => boolean;
  gone?: () => void;
  /** Before it is printed, and after. */
  printing?: (isPrinting: boolean) => void;
}

/** The order of the table unless another is chosen: by level, within a level by execution. */
export const WORST_FIRST = { column: "level", down: true };

export class App {
  language: Language = "en";
  theme: "light" | "dark" = "light";
  readonly filter: Filter = { text: "", levels: new Set(), type: "", outputs: false, where: { rank: null, token: null, graph: null } };
  // The relative error, which a wrong scale shows in, too.
  readonly curve = { metric: "relative_euclidean_distance", log: true, outputs: true };
  readonly sort = { ...WORST_FIRST };
  /** Columns of the table that the reader chose; `null` for those that there is room for. */
  columns: Set<string> | null = null;
  /** Whether the choice of columns is open. */
  choosing = false;
  /** The row that is looked at; -1 for none. */
  selected = -1;
  /** The rows of the table as they are filtered and sorted; next and previous go by them. */
  order: ArrayLike<number> = [];
  /** The address that is shown. */
  address = "";
  /** The address of the view from which a tensor was opened. */
  from = "#/table";
  /** The token of one graph of one rank that the curve and the graph show. */
  unit = 0;

  constructor(readonly report: Report, readonly redraw: () => void) {
    const { tokens } = report;
    if (!tokens) return;
    this.unit = this.firstBad();
    if (!tokens.modes.has(REAL)) this.curve.metric = tokens.modes.has(CHECKSUMS) ? "checksum" : "norm_relative";
  }

  /** The first unit, in the order of time, that is worst. */
  private firstBad(): number {
    const { report } = this;
    const worst = new Int8Array(report.tokens!.units.length).fill(-1);
    for (let row = 0; row < report.count; row++) {
      const level = report.levels[row]!;
      if (level !== UNKNOWN) worst[report.unit(row)] = Math.max(worst[report.unit(row)]!, level);
    }
    const order = report.tokens!.inOrder;
    const reported = report.document.findings[0]?.units[0];
    return reported ?? order.find((unit) => worst[unit] === WRONG) ?? order.find((unit) => worst[unit] === SUSPICIOUS) ?? order[0] ?? 0;
  }

  t(key: Key, values: Record<string, string | number> = {}): string {
    const text = texts[this.language][key];
    return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
  }

  /** A sentence of the comparison, in the language of the page. */
  sentence(encoded: Encoded): string { return sentence(encoded, this.report.document.templates, this.language); }

  /** The sentences of a row, in one line. */
  sentences(name: string, row: number): string { return this.report.text(name, row, this.language); }

  /** Several sentences of the comparison, in one line. */
  joined(encoded: Encoded[]): string { return joined(encoded, this.report.document.templates, this.language); }

  /** What was compared with what, in words. */
  get scenario(): string { return this.joined(this.report.document.scenario); }

  go(...parts: (string | number)[]): void {
    location.hash = `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
    this.redraw();
  }

  /** Add to the address what is chosen in the view that is shown. */
  setAddress(hash: string): void {
    history.replaceState(null, "", hash);
    this.address = hash;
    this.from = hash;
  }

  back(): void {
    location.hash = this.from;
    this.redraw();
  }

  open(row: number): void {
    this.selected = row;
    // In graph mode a tensor is in every token; there, rows are numbered.
    const tensor = this.report.tokens || !this.report.hasUnit(0) ? "" : this.report.tensor(row);
    if (tensor && this.rowOfTensor(tensor) === row) this.go("tensor", tensor);
    else this.go("row", row);
  }

  /** The row of a tensor of the token that is looked at, as `conv1:output:0`; -1 for none. */
  rowOfTensor(tensor: string): number {
    if (!this.rows || this.rows.unit !== this.unit) {
      const byTensor = new Map<string, number>();
      for (const row of this.report.rowsOf(this.unit)) if (!byTensor.has(this.report.tensor(row))) byTensor.set(this.report.tensor(row), row);
      this.rows = { unit: this.unit, byTensor };
    }
    return tensor ? this.rows.byTensor.get(tensor) ?? -1 : -1;
  }

  private rows: { unit: number; byTensor: Map<string, number> } | null = null;

  /** The worst row of an operator in the token that is looked at. */
  rowOf(operator: string): number {
    const { report } = this;
    let best = -1;
    for (const row of report.rowsOf(this.unit)) {
      if (report.text("target", row) !== operator && report.text("operator", row) !== operator) continue;
      if (best < 0 || this.weight(row) > this.weight(best)) best = row;
    }
    return best;
  }

  private weight(row: number): number {
    const level = this.report.levels[row]!;
    return (level === UNKNOWN ? -1 : level) * 2 + (this.report.isOutput(row) ? 1 : 0);
  }
}

/** Choices that outlive the page, where a browser lets pages from disk keep them. */
export function remembered(key: string): string | null {
  try { return localStorage.getItem(`opdiff.${key}`); } catch { return null; }
}
export function remember(key: string, value: string): void {
  try { localStorage.setItem(`opdiff.${key}`, value); } catch { /* it is forgotten, then */ }
}
