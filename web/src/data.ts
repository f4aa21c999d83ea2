// The data of the report, as report/payload.py packs it: columns, decoded when they are first looked at.
import { type PackedPicture, type Picture, unpackPicture } from "./pictures/data";
import { type Encoded, joined, type Templates } from "./sentences";
import type { Language } from "./texts";
import { type GraphModeData, Tokens } from "./tokens";

export const LEVELS = ["exact", "rounding", "noise", "suspicious", "wrong", "unknown"] as const;
export type LevelName = (typeof LEVELS)[number];
export const SUSPICIOUS = 3, WRONG = 4, UNKNOWN = 5;
export const BORN = 1, INHERITED = 2, ACCUMULATED = 3;

export type Numbers = Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;
export interface Packed { type: "b" | "h" | "i" | "f" | "d"; at: number; count: number; absent?: number[] }
interface Side { path: string; kind: string; quantized: boolean }
export type Environment = Record<string, string>;
export interface Finding {
  operator: string; type: string; tensor: string; level: number; kind: string;
  evidence: Encoded[]; remedies: Encoded[]; command: string; share: number | null;
  path: string[]; before: string[]; passes: string[]; missing: boolean; proved: boolean;
}
interface Story { first: string; headline: "" | "misfit" | "match" | "unsure"; advice: Encoded[]; findings: Finding[] }
interface PackedProfile { row: number; axis: number; label: string; extent: number; width: number; sampledShare: number | null; errors: Packed; largest: Packed; notFinite: Packed }
/** The errors of a tensor in the slices of one of its axes. */
export interface Profile { axis: number; label: string; extent: number; width: number; sampledShare: number; errors: Numbers; largest: Numbers; notFinite: Numbers }
interface Document {
  version: number; scenario: Encoded[]; target: Side; golden: Side; environment: Environment;
  edges: { relative: number[]; ulp: number[] };
  rows: { count: number } & Record<string, Packed>;
  metrics: { rows: Packed; columns: Record<string, Packed>; relative: Packed[]; ulp: Packed[] };
  custom: { name: string; values: Packed }[];
  story: Story; graph: Record<string, Packed>; profiles: PackedProfile[]; pictures: PackedPicture[]; explanations: { row: number; orders: Encoded[] }[]; texts: (string | Encoded[])[]; templates: Templates;
  graphMode?: GraphModeData; start?: number;
  changes?: { old: Environment; new: Environment; faults: Encoded[] } & Record<string, Packed>;
}

const KINDS = { b: Int8Array, h: Int16Array, i: Int32Array, f: Float32Array, d: Float64Array };

/** One column; `null` stands for what was not measured. */
export class Column {
  readonly length: number;
  private readonly absent: Set<number>;
  constructor(readonly numbers: Numbers, absent: number[] = []) {
    this.length = numbers.length;
    this.absent = new Set(absent);
  }
  at(place: number): number | null {
    return this.absent.has(place) ? null : this.numbers[place]!;
  }
}

export class Report {
  readonly count: number;
  readonly levels: Numbers;
  readonly origins: Numbers;
  /** What graph mode has besides; `null` in other reports. */
  readonly tokens: Tokens | null;
  private readonly columns = new Map<string, Column>();
  private readonly rendered: Partial<Record<Language, string[]>> = {};
  private readonly places: Int32Array;
  private readonly start: number;

  constructor(readonly document: Document, private readonly bytes: Uint8Array, start: number) {
    this.start = start;
    this.count = document.rows.count;
    this.levels = this.row("level").numbers;
    this.origins = this.row("origin").numbers;
    this.places = new Int32Array(this.count).fill(-1);
    const measured = this.decode("measured", document.metrics.rows).numbers;
    for (let place = 0; place < measured.length; place++) this.places[measured[place]!] = place;
    this.tokens = document.graphMode ? new Tokens(this, document.graphMode) : null;
  }

  get story(): Story { return this.document.story; }

  row(name: string): Column { return this.decode(`row.${name}`, this.document.rows[name]!); }

  text(name: string, row: number, language: Language = "en"): string { return this.texts(language)[this.row(name).numbers[row]!]!; }

  /** The sentences of a row, one by one. */
  sentences(name: string, row: number): Encoded[] {
    const found = this.document.texts[this.row(name).numbers[row]!]!;
    return typeof found === "string" ? [] : found;
  }

  /** All texts by number; sentences in the language. */
  texts(language: Language): string[] {
    return (this.rendered[language] ??= this.document.texts.map((text) => (typeof text === "string" ? text : joined(text, this.document.templates, language))));
  }

  /** A figure of a row; `null` when it was not measured. */
  metric(name: string, row: number): number | null {
    const place = this.places[row]!;
    return place < 0 ? null : this.decode(`metric.${name}`, this.document.metrics.columns[name]!).at(place);
  }

  isMeasured(row: number): boolean { return this.places[row]! >= 0; }

  /** Whether there is anything to say about a row: in graph mode also by statistics or checksums. */
  isCompared(row: number): boolean { return this.isMeasured(row) || (this.tokens !== null && this.levels[row] !== UNKNOWN); }

  /** The token of one graph of one rank that a row is of; all rows are of one outside of graph mode. */
  unit(row: number): number { return this.tokens ? this.tokens.unit[row]! : 0; }

  histogram(which: "relative" | "ulp", row: number): number[] {
    const place = this.places[row]!;
    if (place < 0) return [];
    return this.document.metrics[which].map((bin, n) => this.decode(`${which}.${n}`, bin).at(place) ?? 0);
  }

  profiles(row: number): Profile[] {
    return this.document.profiles.filter((profile) => profile.row === row).map(({ errors, largest, notFinite, sampledShare, ...rest }) => (
      { ...rest, sampledShare: sampledShare ?? 1, errors: this.numbers(errors), largest: this.numbers(largest), notFinite: this.numbers(notFinite) }));
  }

  /** The storage orders that explain the error of a tensor. */
  explanations(row: number): Encoded[] { return this.document.explanations.find((each) => each.row === row)?.orders ?? []; }

  /** The picture of a tensor; `null` for most of them. */
  picture(row: number): Picture | null {
    const found = this.document.pictures.find((picture) => picture.row === row);
    return found ? unpackPicture(found, (packed) => this.numbers(packed)) : null;
  }

  custom(row: number): [string, string][] {
    return this.document.custom
      .map(({ name, values }): [string, string] => [name, this.texts("en")[this.decode(`custom.${name}`, values).numbers[row]!]!])
      .filter(([, value]) => value !== "");
  }

  /** The tensor of a row, as `conv1:output:0`; empty when the row is about a whole operator. */
  tensor(row: number): string {
    const slot = this.row("slot").numbers[row]!;
    return slot < 0 ? "" : `${this.text("operator", row)}:${slot ? "output" : "input"}:${this.row("number").numbers[row]}`;
  }

  /** Whether the row is of an input or a constant of the compiled model, which no golden tensor can equal. */
  isAlone(row: number): boolean { return this.row("alone").numbers[row] === 1; }

  isOutput(row: number): boolean { return this.row("slot").numbers[row] === 1; }

  /** A column of the network; graph mode may have several of them. */
  graphColumn(name: string, unit = 0): Numbers {
    const number = this.tokens?.units[unit]?.network ?? -1;
    const graph = this.tokens?.data.networks[number] ?? this.document.graph;
    return this.decode(`graph.${number}.${name}`, graph[name]!).numbers;
  }

  /** Whether there is a network to be shown, or rows in the order of execution. */
  get hasGraph(): boolean { return !this.tokens || this.tokens.data.networks.length > 0; }

  changesColumn(name: string): Column { return this.decode(`changes.${name}`, this.document.changes![name]!); }

  decode(key: string, packed: Packed): Column {
    let column = this.columns.get(key);
    if (!column) this.columns.set(key, (column = new Column(this.numbers(packed), packed.absent)));
    return column;
  }

  /** The bytes of all numbers lie in planes: first all the first bytes, then all the second ones, … */
  private numbers({ type, at, count }: Packed): Numbers {
    const kind = KINDS[type];
    const width = kind.BYTES_PER_ELEMENT;
    const joined = new Uint8Array(count * width);
    for (let plane = 0; plane < width; plane++) {
      const from = this.start + at + plane * count;
      for (let i = 0, to = plane; i < count; i++, to += width) joined[to] = this.bytes[from + i]!;
    }
    return new kind(joined.buffer);
  }
}

export async function readReport(base64: string): Promise<Report> {
  const binary = atob(base64.trim());
  const deflated = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) deflated[i] = binary.charCodeAt(i);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const end = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const document = JSON.parse(new TextDecoder().decode(bytes.subarray(4, end))) as Document;
  return new Report(document, bytes, end);
}
