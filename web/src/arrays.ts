// What report/arrays.py writes: a document, binary arrays behind it, and strings; compressed and base64-encoded.
import { type Encoded, joined, sentence, type Templates } from "./sentences";
import type { Language } from "./texts";

export type Numbers = Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;
export interface Packed { type: "b" | "h" | "i" | "f" | "d"; at: number; count: number; absent?: number[] }
type Text = string | Encoded[];
/** What every document has. `shared` texts are those of another document, which come before these. */
interface Strings { texts: Text[]; templates: Templates; shared: number }

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

/** A document with its columns, decoded when they are first looked at, and its strings. */
export class Archive<Document extends Strings> {
  private readonly columns = new Map<string, Column>();
  private readonly rendered: Record<Language, string[]> = { en: [], zh: [] };

  constructor(readonly document: Document, private readonly bytes: Uint8Array, private readonly start: number, private readonly shared: Archive<Strings> | null) {}

  column(key: string, packed: Packed): Column {
    let column = this.columns.get(key);
    if (!column) this.columns.set(key, (column = new Column(this.numbers(packed), packed.absent)));
    return column;
  }

  /** The bytes of all numbers lie in planes: first all the first bytes, then all the second ones, … */
  numbers({ type, at, count }: Packed): Numbers {
    const kind = KINDS[type];
    const width = kind.BYTES_PER_ELEMENT;
    const joined = new Uint8Array(count * width);
    for (let plane = 0; plane < width; plane++) {
      const from = this.start + at + plane * count;
      for (let i = 0, to = plane; i < count; i++, to += width) joined[to] = this.bytes[from + i]!;
    }
    return new kind(joined.buffer);
  }

  /** A string by its number; sentences in the language. */
  text(number: number, language: Language = "en"): string {
    const { shared, texts, templates } = this.document;
    if (number < shared) return this.shared!.text(number, language);
    const text = texts[number - shared]!;
    return typeof text === "string" ? text : (this.rendered[language][number - shared] ??= joined(text, templates, language));
  }

  /** The sentences of a string, one by one. */
  sentences(number: number, language: Language): string[] {
    const { shared, texts, templates } = this.document;
    if (number < shared) return this.shared!.sentences(number, language);
    const text = texts[number - shared]!;
    return typeof text === "string" ? [] : text.map((each) => sentence(each, templates, language));
  }
}

export async function readArchive<Document extends Strings>(base64: string, shared: Archive<Strings> | null): Promise<Archive<Document>> {
  const binary = atob(base64.trim());
  const deflated = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) deflated[i] = binary.charCodeAt(i);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const end = 4 + new DataView(bytes.buffer).getUint32(0, true);
  return new Archive(JSON.parse(new TextDecoder().decode(bytes.subarray(4, end))) as Document, bytes, end, shared);
}
