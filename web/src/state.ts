// What the page knows and what is chosen on it.
import type { Report } from "./data";
import { inChinese } from "./sentences";
import { type Key, type Language, scenarios, texts } from "./texts";

export interface Filter { text: string; levels: Set<number>; type: string; outputs: boolean }
export interface View { element: HTMLElement; shown?: () => void; key?: (key: string) => boolean; gone?: () => void }

export class App {
  language: Language = "en";
  theme: "light" | "dark" = "light";
  readonly filter: Filter = { text: "", levels: new Set(), type: "", outputs: false };
  readonly curve = { metric: "distance", log: true, outputs: true };
  readonly sort = { column: "", down: false };
  /** The row that is looked at; -1 for none. */
  selected = -1;
  /** The rows of the table as they are filtered and sorted; next and previous go by them. */
  order: ArrayLike<number> = [];

  constructor(readonly report: Report, readonly redraw: () => void) {}

  t(key: Key, values: Record<string, string | number> = {}): string {
    const text = texts[this.language][key];
    return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
  }

  /** A sentence of the comparison, in the language of the page. */
  told(sentence: string): string {
    return this.language === "zh" ? (this.report.story.chinese[sentence] ?? inChinese(sentence)) : sentence;
  }

  /** What was compared with what, in words. */
  get scenario(): string {
    const told = this.report.document.scenario;
    return this.language === "zh" ? (scenarios[told] ?? told) : told;
  }

  go(...parts: (string | number)[]): void {
    location.hash = `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
    this.redraw();
  }

  open(row: number): void {
    this.selected = row;
    this.go("row", row);
  }

  /** The first row of an operator: its worst one. */
  rowOf(operator: string): number {
    const { report } = this;
    let best = -1;
    for (let row = 0; row < report.count; row++) {
      if (report.text("target", row) !== operator && report.text("operator", row) !== operator) continue;
      if (best < 0 || this.weight(row) > this.weight(best)) best = row;
    }
    return best;
  }

  private weight(row: number): number {
    const level = this.report.levels[row]!;
    return (level === 5 ? -1 : level) * 2 + (this.report.isOutput(row) ? 1 : 0);
  }
}

/** Choices that outlive the page, where a browser lets pages from disk keep them. */
export function remembered(key: string): string | null {
  try { return localStorage.getItem(`opdiff.${key}`); } catch { return null; }
}
export function remember(key: string, value: string): void {
  try { localStorage.setItem(`opdiff.${key}`, value); } catch { /* it is forgotten, then */ }
}
