// Names that people can read: of a fused operator the path that its parts share, and what each part is.
import type { Report } from "./data";

const known = new WeakMap<Report, Map<string, string>>();

/** The short name of an operator; its own name where it has no parts. */
export function readable(report: Report, operator: string): string {
  let names = known.get(report);
  if (!names) known.set(report, (names = namesOf(report)));
  return names.get(operator) ?? operator;
}

/** A name that is made of those of the originals: `/a/b/conv/Conv/a/b/act/Relu` is `a/b · Conv + Relu`. Others stay. */
export function fused(operator: string, originals: string[]): string {
  const named = originals.filter((original) => operator.includes(original));
  if (named.length < 2 || !operator.startsWith(named[0]!) || !operator.endsWith(named.at(-1)!)) return operator;
  const paths = named.map((original) => original.split("/").filter(Boolean));
  const shortest = Math.min(...paths.map((path) => path.length)) - 1;
  let shared = 0;
  while (shared < shortest && paths.every((path) => path[shared] === paths[0]![shared])) shared++;
  const parts = paths.map((path) => path.at(-1) ?? "").join(" + ");
  return shared ? `${paths[0]!.slice(0, shared).join("/")} · ${parts}` : parts;
}

function namesOf(report: Report): Map<string, string> {
  const texts = report.texts("en");
  const graphs = report.tokens ? report.tokens.data.networks : [report.document.graph];
  const found = new Map<string, string>();
  graphs.forEach((graph, number) => {
    const column = (name: string): string[] => Array.from(report.decode(`names.${number}.${name}`, graph[name]!).numbers, (text) => texts[text]!);
    const originals = column("originals");
    column("name").forEach((name, n) => {
      const parts = originals[n]!.split("\n").filter(Boolean);
      if (parts.length > 1) found.set(name, fused(name, parts));
    });
  });
  return found;
}
