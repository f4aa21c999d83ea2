// Consecutive rows, as report/row_payload.py packs them. Rows are counted from the first one of the block here.
import type { Archive, Column, Numbers, Packed } from "./arrays";
import type { Language } from "./texts";

interface Part { rows: Packed; columns: Record<string, Packed> }
export interface BlockDocument {
  rows: Record<string, Packed>;
  metrics: Part & { relative: Packed[]; ulp: Packed[] };
  custom: { name: string; values: Packed }[];
  graphMode?: { marks: Packed; stack: Packed; real: Part; statistics: Part; checksums: { rows: Packed; target: Packed; golden: Packed } };
  texts: never[]; templates: []; shared: number;
}

export class Block {
  private readonly places = new Map<string, Int32Array>();

  constructor(readonly first: number, readonly count: number, private readonly archive: Archive<BlockDocument>) {}

  row(name: string): Column { return this.archive.column(`row.${name}`, this.archive.document.rows[name]!); }

  textOf(number: number, language: Language = "en"): string { return this.archive.text(number, language); }

  text(name: string, row: number, language: Language): string { return this.textOf(this.row(name).numbers[row]!, language); }

  sentences(name: string, row: number, language: Language): string[] { return this.archive.sentences(this.row(name).numbers[row]!, language); }

  isMeasured(row: number): boolean { return this.place("metric", this.archive.document.metrics.rows, row) >= 0; }

  /** A figure of a row; `null` when it was not measured. */
  metric(name: string, row: number): number | null { return this.figure("metric", this.archive.document.metrics, name, row); }

  histogram(which: "relative" | "ulp", row: number): number[] {
    const place = this.place("metric", this.archive.document.metrics.rows, row);
    if (place < 0) return [];
    return this.archive.document.metrics[which].map((bin, n) => this.archive.column(`${which}.${n}`, bin).at(place) ?? 0);
  }

  custom(row: number): [string, string][] {
    return this.archive.document.custom
      .map(({ name, values }): [string, string] => [name, this.textOf(this.archive.column(`custom.${name}`, values).numbers[row]!)])
      .filter(([, value]) => value !== "");
  }

  /** A documented metric or a statistic of graph mode; `null` when it was not compared in this way. */
  documented(part: "real" | "statistics", name: string, row: number): number | null {
    const { graphMode } = this.archive.document;
    return graphMode ? this.figure(part, graphMode[part], name, row) : null;
  }

  checksum(side: "target" | "golden", row: number): string {
    const checksums = this.archive.document.graphMode?.checksums;
    const place = checksums ? this.place("checksums", checksums.rows, row) : -1;
    return place < 0 ? "" : this.textOf(this.archive.column(`checksums.${side}`, checksums![side]).numbers[place]!);
  }

  /** Why a row of graph mode is marked, or where its operator comes from. */
  remark(name: "marks" | "stack", row: number, language: Language): string {
    const { graphMode } = this.archive.document;
    return graphMode ? this.textOf(this.archive.column(name, graphMode[name]).numbers[row]!, language) : "";
  }

  private figure(part: string, { rows, columns }: Part, name: string, row: number): number | null {
    const packed = columns[name], place = packed ? this.place(part, rows, row) : -1;
    return packed && place >= 0 ? this.archive.column(`${part}.${name}`, packed).at(place) : null;
  }

  /** Where in the columns of a part a row is; -1 for rows without these values. */
  private place(part: string, rows: Packed, row: number): number {
    let places = this.places.get(part);
    if (!places) {
      this.places.set(part, (places = new Int32Array(this.count).fill(-1)));
      (this.archive.numbers(rows) as Numbers).forEach((number, place) => (places![number] = place));
    }
    return places[row]!;
  }
}
