// Names that people can read; report/short_names.py makes them.
import type { Report } from "./data";

const known = new WeakMap<Report, Map<string, string>>();

/** The short name of an operator; its own name where it has no parts. */
export function readable(report: Report, operator: string): string {
  let names = known.get(report);
  if (!names) known.set(report, (names = namesOf(report)));
  return names.get(operator) ?? (operator.includes(",") ? operator.split(",").map((one) => names!.get(one) ?? one).join(", ") : operator);
}

function namesOf(report: Report): Map<string, string> {
  const graphs = report.tokens ? report.tokens.data.networks.map((_, number) => number) : [-1];
  const found = new Map<string, string>();
  graphs.forEach((number) => {
    const column = (name: string): string[] => Array.from(report.networkColumn(name, number), (text) => report.textOf(text));
    const short = column("short");
    column("name").forEach((name, n) => found.set(name, short[n]!));
  });
  return found;
}
