// The data of the report, as report/payload.py packs it: what the overview needs of all rows, and the rows in blocks.
import { type Archive, type Column, type Numbers, type Packed, readArchive } from "./arrays";
import { Block, type BlockDocument } from "./block";
import { type PackedPicture, type Picture, unpackPicture } from "./pictures/data";
import type { Encoded, Templates } from "./sentences";
import type { Language } from "./texts";
import { type GraphModeData, Tokens } from "./tokens";

export const LEVELS = ["exact", "rounding", "noise", "suspicious", "wrong", "unknown"] as const;
export type LevelName = (typeof LEVELS)[number];
export const SUSPICIOUS = 3, WRONG = 4, UNKNOWN = 5;
export const BORN = 1, INHERITED = 2, ACCUMULATED = 3;
// Rows whose blocks are kept when others are read; blocks that are looked at are kept anyway.
const MOST_ROWS_KEPT = 100_000, LEAST_BLOCKS_KEPT = 8, PARSE_WAIT_MS = 30;

interface Side { path: string; kind: string; quantized: boolean }
export type Environment = Record<string, string>;
export interface Finding {
  operator: string; type: string; tensor: string; level: number; kind: string;
  evidence: Encoded[]; remedies: Encoded[]; command: string; share: number | null;
  path: string[]; before: string[]; passes: string[]; missing: boolean; proved: boolean;
}
interface Story { first: string; only: string; headline: "" | "misfit" | "match" | "unsure"; advice: Encoded[]; findings: Finding[] }
interface PackedProfile { row: number; axis: number; label: string; extent: number; width: number; sampledShare: number | null; errors: Packed; largest: Packed; notFinite: Packed }
/** The errors of a tensor in the slices of one of its axes. */
export interface Profile { axis: number; label: string; extent: number; width: number; sampledShare: number; errors: Numbers; largest: Numbers; notFinite: Numbers }
export interface ReportDocument {
  version: number; scenario: Encoded[]; notes: Encoded[]; target: Side; golden: Side; environment: Environment;
  edges: { relative: number[]; ulp: number[] };
  /** Columns of all rows, and how many of them each block has. */
  rows: Record<"level" | "origin" | "slot" | "alone" | "mode" | "result", Packed>; blocks: number[]; unitRuns: [unit: number, rows: number][];
  /** The kinds of reasons of what was not compared: that of each such row, and an example of each kind. */
  missing: { kind: Packed; kinds: Encoded[][] };
  types: string[]; findings: { units: number[]; row: number }[];
  story: Story; graph: Record<string, Packed>; profiles: PackedProfile[]; pictures: PackedPicture[]; explanations: { row: number; orders: Encoded[] }[];
  graphMode?: GraphModeData; start?: number;
  changes?: { old: Environment; new: Environment; faults: Encoded[] } & Record<string, Packed>;
  texts: (string | Encoded[])[]; templates: Templates; shared: number;
}

export class Report {
  readonly document: ReportDocument;
  readonly count: number;
  readonly levels: Numbers;
  readonly origins: Numbers;
  readonly slots: Numbers;
  /** What graph mode has besides; `null` in other reports. */
  readonly tokens: Tokens | null;
  private readonly alone: Numbers;
  /** The first row of each block, and behind the last one. */
  private readonly starts: number[] = [0];
  /** The blocks that were read, those that were used last at the end. */
  private readonly loaded = new Map<number, Block>();
  private readonly loading = new Map<number, Promise<Block>>();
  private kept = new Set<number>();
  private last: Block | null = null;

  constructor(private readonly archive: Archive<ReportDocument>) {
    this.document = archive.document;
    for (const length of this.document.blocks) this.starts.push(this.starts.at(-1)! + length);
    this.count = this.starts.at(-1)!;
    this.levels = this.column("level");
    this.origins = this.column("origin");
    this.slots = this.column("slot");
    this.alone = this.column("alone");
    this.tokens = this.document.graphMode ? new Tokens(this, this.document.graphMode) : null;
  }

  get story(): Story { return this.document.story; }

  /** A column that all rows have in the report itself. */
  column(name: keyof ReportDocument["rows"]): Numbers { return this.archive.column(`row.${name}`, this.document.rows[name]).numbers; }

  /** A string of the report itself. */
  textOf(number: number): string { return this.archive.text(number); }

  // The blocks

  /** The block of a row, which has been read. */
  block(row: number): Block {
    const { last } = this;
    if (last && row >= last.first && row < last.first + last.count) return last;
    const found = this.loaded.get(this.blockNumber(row));
    if (!found) throw new Error(`row ${row} has not been read`);
    return (this.last = found);
  }

  has(row: number): boolean { return this.loaded.has(this.blockNumber(row)); }

  private blockNumber(row: number): number {
    let low = 0, high = this.starts.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle]! <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** All blocks, read one after the other, which gives up what is no longer wanted. */
  async *blocks(isWanted: (first: number, end: number) => boolean): AsyncGenerator<Block> {
    for (let number = 0; number < this.starts.length - 1; number++) {
      if (isWanted(this.starts[number]!, this.starts[number + 1]!)) yield await this.read(number);
    }
  }

  /** Read the blocks of these rows. */
  async load(rows: Iterable<number>): Promise<void> {
    for (const number of new Set(Array.from(rows, (row) => this.blockNumber(row)))) await this.read(number);
  }

  /** Read the rows of one token, and keep them as long as no other token is looked at. */
  async loadUnit(unit: number, isKept = true): Promise<void> {
    const numbers = this.blocksOfUnit(unit);
    if (isKept) this.kept = new Set(numbers);
    for (const number of numbers) await this.read(number);
  }

  hasUnit(unit: number): boolean { return this.blocksOfUnit(unit).every((number) => this.loaded.has(number)); }

  private blocksOfUnit(unit: number): number[] {
    const found = new Set<number>();
    for (const [first, end] of this.runs(unit)) for (let number = this.blockNumber(first); number < this.starts.length - 1 && this.starts[number]! < end; number++) found.add(number);
    return [...found];
  }

  /** Where the rows of a unit are: all rows outside of graph mode. */
  private runs(unit: number): [first: number, end: number][] { return this.tokens ? this.tokens.runs[unit] ?? [] : [[0, this.count]]; }

  *rowsOf(unit: number): Generator<number> {
    for (const [first, end] of this.runs(unit)) for (let row = first; row < end; row++) yield row;
  }

  private async read(number: number): Promise<Block> {
    const known = this.loaded.get(number);
    if (known) {
      this.loaded.delete(number);
      this.loaded.set(number, known);
      return known;
    }
    let promise = this.loading.get(number);
    if (!promise) this.loading.set(number, (promise = this.readNow(number).finally(() => this.loading.delete(number))));
    return promise;
  }

  private async readNow(number: number): Promise<Block> {
    const first = this.starts[number]!;
    const archive = await readArchive<BlockDocument>(await elementText(`block-${number}`), this.archive);
    const block = new Block(first, this.starts[number + 1]! - first, archive);
    this.loaded.set(number, block);
    this.forget();
    return block;
  }

  /** Give up the blocks that were not used for longest. */
  private forget(): void {
    let rows = [...this.loaded.values()].reduce((sum, { count }) => sum + count, 0);
    for (const [number, block] of this.loaded) {
      if (rows <= MOST_ROWS_KEPT || this.loaded.size <= LEAST_BLOCKS_KEPT) return;
      if (this.kept.has(number)) continue;
      this.loaded.delete(number);
      rows -= block.count;
      if (this.last === block) this.last = null;
    }
  }

  // The rows, as far as their blocks have been read

  number(name: string, row: number): number { const block = this.block(row); return block.row(name).numbers[row - block.first]!; }

  value(name: string, row: number): number | null { const block = this.block(row); return block.row(name).at(row - block.first); }

  text(name: string, row: number, language: Language = "en"): string { const block = this.block(row); return block.text(name, row - block.first, language); }

  sentences(name: string, row: number, language: Language): string[] { const block = this.block(row); return block.sentences(name, row - block.first, language); }

  /** A figure of a row; `null` when it was not measured. */
  metric(name: string, row: number): number | null { const block = this.block(row); return block.metric(name, row - block.first); }

  isMeasured(row: number): boolean { const block = this.block(row); return block.isMeasured(row - block.first); }

  histogram(which: "relative" | "ulp", row: number): number[] { const block = this.block(row); return block.histogram(which, row - block.first); }

  custom(row: number): [string, string][] { const block = this.block(row); return block.custom(row - block.first); }

  /** The tensor of a row, as `conv1:output:0`; empty when the row is about a whole operator. */
  tensor(row: number): string {
    const slot = this.slots[row]!;
    return slot < 0 ? "" : `${this.text("operator", row)}:${slot ? "output" : "input"}:${this.number("number", row)}`;
  }

  // The rows, as far as the report itself knows them

  /** Whether there is anything to say about a row: in graph mode also by statistics or checksums. */
  isCompared(row: number): boolean { return this.isMeasured(row) || (this.tokens !== null && this.levels[row] !== UNKNOWN); }

  /** The token of one graph of one rank that a row is of; all rows are of one outside of graph mode. */
  unit(row: number): number { return this.tokens ? this.tokens.unit[row]! : 0; }

  /** Whether the row is of an input or a constant of the compiled model, which no golden tensor can equal. */
  isAlone(row: number): boolean { return this.alone[row] === 1; }

  isOutput(row: number): boolean { return this.slots[row] === 1; }

  profiles(row: number): Profile[] {
    const numbers = (packed: Packed): Numbers => this.archive.numbers(packed);
    return this.document.profiles.filter((profile) => profile.row === row).map(({ errors, largest, notFinite, sampledShare, ...rest }) => (
      { ...rest, sampledShare: sampledShare ?? 1, errors: numbers(errors), largest: numbers(largest), notFinite: numbers(notFinite) }));
  }

  /** The storage orders that explain the error of a tensor. */
  explanations(row: number): Encoded[] { return this.document.explanations.find((each) => each.row === row)?.orders ?? []; }

  /** The picture of a tensor; `null` for most of them. */
  picture(row: number): Picture | null {
    const found = this.document.pictures.find((picture) => picture.row === row);
    return found ? unpackPicture(found, (packed) => this.archive.numbers(packed)) : null;
  }

  /** The kind of reason of each row that was not compared. */
  get missingKinds(): Numbers { return this.archive.column("missing.kind", this.document.missing.kind).numbers; }

  /** A column of the network; graph mode may have several of them. */
  graphColumn(name: string, unit = 0): Numbers {
    const number = this.tokens?.units[unit]?.network ?? -1;
    return this.networkColumn(name, number);
  }

  networkColumn(name: string, number: number): Numbers {
    const graph = this.tokens?.data.networks[number] ?? this.document.graph;
    return this.archive.column(`graph.${number}.${name}`, graph[name]!).numbers;
  }

  /** Whether there is a network to be shown, or rows in the order of execution. */
  get hasGraph(): boolean { return !this.tokens || this.tokens.data.networks.length > 0; }

  changesColumn(name: string): Column { return this.archive.column(`changes.${name}`, this.document.changes![name]!); }
}

/** The text of an element, once the browser has read it whole: the blocks of a long file come after the first view. */
async function elementText(id: string): Promise<string> {
  for (;;) {
    const element = document.getElementById(id);
    if (element?.nextElementSibling || document.readyState !== "loading") return element!.textContent!;
    await new Promise((done) => setTimeout(done, PARSE_WAIT_MS));
  }
}

export async function readReport(base64: string): Promise<Report> {
  return new Report(await readArchive<ReportDocument>(base64, null));
}
