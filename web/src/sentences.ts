// Sentences of a comparison: templates in both languages, and the facts of each. report/page_text.py encodes them.
import type { Language } from "./texts";

/** The number of a template, and the values of its facts. */
export type Encoded = [number, ...Value[]];
type Value = string | Encoded | { all: Encoded[] } | { en: string; zh: string };
export type Templates = [string, string][];

const SEPARATOR = { en: "; ", zh: "；" };

/** One sentence. */
export function sentence(encoded: Encoded, templates: Templates, language: Language): string {
  const [number, ...values] = encoded;
  const template = templates[number]![language === "zh" ? 1 : 0];
  return template.replace(/\{(\d+)\}/g, (_, place: string) => shown(values[Number(place)] ?? "", templates, language));
}

/** Several sentences in one line. */
export function joined(encoded: Encoded[], templates: Templates, language: Language): string {
  return [...new Set(encoded.map((each) => sentence(each, templates, language)))].join(SEPARATOR[language]);
}

function shown(value: Value, templates: Templates, language: Language): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return sentence(value, templates, language);
  return "all" in value ? joined(value.all, templates, language) : value[language];
}
