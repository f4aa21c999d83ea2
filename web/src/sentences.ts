// Sentences of a comparison in Chinese; src/opdiff/sentences.py does the same, and says how.
import table from "../../src/opdiff/sentences.json";

const words: Record<string, string> = table.words;
const sentences = Object.entries(table.sentences)
  .map(([english, chinese]) => ({ parts: english.split("{}"), chinese }))
  .sort((a, b) => size(b.parts) - size(a.parts));
const known = new Map<string, string>();

function size(parts: string[]): number { return parts.reduce((sum, part) => sum + part.length, 0); }

/** A text of a comparison in Chinese, as far as the table has it. */
export function inChinese(text: string): string {
  let told = known.get(text);
  if (told === undefined) known.set(text, (told = text.split("; ").map((part) => sentence(part) || behindAName(part)).join("；")));
  return told;
}

function sentence(text: string): string {
  for (const { parts, chinese } of sentences) {
    const values = valuesOf(parts, text);
    if (values) return chinese.replace(/\{(\d+)(:w)?\}/g, (_, place: string, isWord?: string) => value(values[Number(place)]!, !!isWord));
  }
  return "";
}

function value(text: string, isWord: boolean): string { return isWord ? (words[text] ?? text) : inChinese(text); }

/** A file or a tensor, and what is said of it. */
function behindAName(text: string): string {
  const colon = text.indexOf(": ");
  const told = colon < 0 ? "" : sentence(text.slice(colon + 2));
  return told ? `${text.slice(0, colon)}：${told}` : text;
}

function valuesOf(parts: string[], text: string): string[] | null {
  const first = parts[0]!, last = parts[parts.length - 1]!;
  if (parts.length === 1) return text === first ? [] : null;
  if (!text.startsWith(first) || !text.endsWith(last)) return null;
  const found: string[] = [], end = text.length - last.length;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const place = text.indexOf(part, at);
    if (place < 0 || place + part.length > end) return null;
    found.push(text.slice(at, place));
    at = place + part.length;
  }
  return at <= end ? [...found, text.slice(at, end)] : null;
}
