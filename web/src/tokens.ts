// What only reports of graph mode have: ranks, tokens and graphs, PASS and FAIL, statistics, checksums.
import type { Numbers, Packed } from "./arrays";
import type { Report } from "./data";

export interface Unit { rank: number | null; token: number; graph: number | null; network: number }
export const DIMENSIONS = ["rank", "token", "graph"] as const;
export type Dimension = (typeof DIMENSIONS)[number];
export const REAL = 0, STATISTICS = 1, CHECKSUMS = 2;
export const PASS = 0, FAIL = 1;

export interface GraphModeData {
  units: [number | null, number, number | null, number][];
  networks: Record<string, Packed>[];
}

export class Tokens {
  readonly units: Unit[];
  /** The unit of each row, and where the rows of each unit are. */
  readonly unit: Int32Array;
  readonly runs: [first: number, end: number][][];
  readonly results: Numbers;
  readonly modes: Set<number>;

  constructor(private readonly report: Report, readonly data: GraphModeData) {
    this.units = data.units.map(([rank, token, graph, network]) => ({ rank, token, graph, network }));
    this.unit = new Int32Array(report.count);
    this.runs = this.units.map(() => []);
    let first = 0;
    for (const [unit, rows] of report.document.unitRuns) {
      this.unit.fill(unit, first, first + rows);
      this.runs[unit]!.push([first, (first += rows)]);
    }
    this.results = report.column("result");
    const modes = report.column("mode");
    this.modes = new Set(modes.filter((_, row) => this.results[row] === PASS || this.results[row] === FAIL));
  }

  /** By what a row was compared. */
  mode(row: number): number { return this.report.column("mode")[row]!; }

  /** All ranks, tokens or graphs there are. */
  values(dimension: Dimension): number[] {
    return [...new Set(this.units.map((unit) => unit[dimension]).filter((value) => value !== null))].sort((a, b) => a - b);
  }

  of(row: number): Unit { return this.units[this.unit[row]!]!; }

  /** A figure of a row that was compared in this way; `null` when it was not measured. */
  figure(part: "real" | "statistics", name: string, row: number): number | null {
    const block = this.report.block(row);
    return block.documented(part, name, row - block.first);
  }

  checksum(side: "target" | "golden", row: number): string {
    const block = this.report.block(row);
    return block.checksum(side, row - block.first);
  }

  /** The units in the order of time: a token of all ranks before the next one. */
  get inOrder(): number[] {
    const key = ({ token, rank, graph }: Unit): number[] => [token, rank ?? -1, graph ?? -1];
    const compare = (a: number[], b: number[]): number => a[0]! - b[0]! || a[1]! - b[1]! || a[2]! - b[2]!;
    return [...this.units.keys()].sort((a, b) => compare(key(this.units[a]!), key(this.units[b]!)));
  }
}
