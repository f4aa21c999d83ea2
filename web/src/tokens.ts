// What only reports of graph mode have: ranks, tokens and graphs, PASS and FAIL, statistics, checksums.
import type { Column, Packed, Report } from "./data";
import type { Encoded } from "./sentences";

export interface Unit { rank: number | null; token: number; graph: number | null; network: number }
export const DIMENSIONS = ["rank", "token", "graph"] as const;
export type Dimension = (typeof DIMENSIONS)[number];
export const REAL = 0, STATISTICS = 1, CHECKSUMS = 2;
export const PASS = 0, FAIL = 1;

interface Part { rows: Packed; columns: Record<string, Packed> }
export interface GraphModeData {
  units: [number | null, number, number | null, number][];
  networks: Record<string, Packed>[];
  notes: Encoded[];
  unit: Packed; mode: Packed; result: Packed; marks: Packed; stack: Packed;
  real: Part; statistics: Part;
  checksums: { rows: Packed; target: Packed; golden: Packed };
  findings: { units: number[]; row: number }[];
}

export class Tokens {
  readonly units: Unit[];
  readonly unit: Column["numbers"];
  readonly modes: Set<number>;
  private readonly places = new Map<string, Int32Array>();

  constructor(private readonly report: Report, readonly data: GraphModeData) {
    this.units = data.units.map(([rank, token, graph, network]) => ({ rank, token, graph, network }));
    this.unit = this.column("unit").numbers;
    const results = this.column("result").numbers, modes = this.column("mode").numbers;
    this.modes = new Set(modes.filter((_, row) => results[row] === PASS || results[row] === FAIL));
  }

  column(name: "unit" | "mode" | "result" | "marks" | "stack"): Column { return this.report.decode(`tokens.${name}`, this.data[name]); }

  /** All ranks, tokens or graphs there are. */
  values(dimension: Dimension): number[] {
    return [...new Set(this.units.map((unit) => unit[dimension]).filter((value) => value !== null))].sort((a, b) => a - b);
  }

  of(row: number): Unit { return this.units[this.unit[row]!]!; }

  /** A figure of a row that was compared in this way; `null` when it was not measured. */
  figure(part: "real" | "statistics", name: string, row: number): number | null {
    const packed = this.data[part].columns[name];
    const place = this.placeOf(part, row);
    return packed && place >= 0 ? this.report.decode(`tokens.${part}.${name}`, packed).at(place) : null;
  }

  checksum(side: "target" | "golden", row: number): string {
    const place = this.placeOf("checksums", row);
    if (place < 0) return "";
    return this.report.texts("en")[this.report.decode(`tokens.checksums.${side}`, this.data.checksums[side]).numbers[place]!]!;
  }

  /** The units in the order of time: a token of all ranks before the next one. */
  get inOrder(): number[] {
    const key = ({ token, rank, graph }: Unit): number[] => [token, rank ?? -1, graph ?? -1];
    const compare = (a: number[], b: number[]): number => a[0]! - b[0]! || a[1]! - b[1]! || a[2]! - b[2]!;
    return [...this.units.keys()].sort((a, b) => compare(key(this.units[a]!), key(this.units[b]!)));
  }

  private placeOf(part: "real" | "statistics" | "checksums", row: number): number {
    let places = this.places.get(part);
    if (!places) {
      this.places.set(part, (places = new Int32Array(this.report.count).fill(-1)));
      this.report.decode(`tokens.${part}`, this.data[part].rows).numbers.forEach((number, place) => (places![number] = place));
    }
    return places[row]!;
  }
}
