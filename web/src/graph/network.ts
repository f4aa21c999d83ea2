// The network that is drawn: its operators with their levels, and what is folded to one.
import { type Report, SUSPICIOUS, UNKNOWN, WRONG } from "../data";
import * as format from "../format";

export interface Operator {
  name: string; short: string; type: string; level: number; origin: number;
  /** Its worst row; -1 when it has none. */
  row: number;
  originals: string[]; passes: string[];
  /** Its relative distance, as text. */
  value: string;
}
export interface Edge { from: number; to: number; guess: boolean }
export interface Network { operators: Operator[]; edges: Edge[]; known: boolean; byName: Map<string, number> }

export type Folding = "none" | "good" | "scope";
export interface Shape { members: number[]; label: string; key: string; level: number; origin: number }
/** What is drawn: an operator each, or several as one. */
export interface Folded { shapes: Shape[]; of: Int32Array; edges: Edge[] }

export const isBad = (level: number): boolean => level === SUSPICIOUS || level === WRONG;
const weight = (level: number): number => (level === UNKNOWN ? -1 : level);

// Holders of weights: they run nowhere, and there are two for every convolution. Without connections are events of streams.
const CONSTANT = /^(const|constant|constplaceholder|fileconstant|variable)$/i;

/** The network, coloured by the rows of one token. */
export function networkOf(report: Report, withConstants: boolean, unit = 0): Network {
  const names = Array.from(report.graphColumn("name", unit), (text) => report.textOf(text));
  const known = names.length > 0;
  const operators = known ? described(report, names, unit) : byRows(report, unit);
  const byName = new Map(operators.map(({ name }, n) => [name, n]));
  rate(report, operators, byName, unit);
  const network = { operators, edges: known ? edgesOf(report, unit) : chain(operators.length), known, byName };
  if (withConstants || !known) return network;
  const connected = new Set(network.edges.flatMap(({ from, to }) => [from, to]));
  return without(network, ({ type, row }, n) => row < 0 && (CONSTANT.test(type) || !connected.has(n)));
}

/** The network less some operators. */
function without({ operators, edges, known }: Network, unwanted: (operator: Operator, place: number) => boolean): Network {
  let count = 0;
  const places = operators.map((operator, n) => (unwanted(operator, n) ? -1 : count++));
  const kept = operators.filter((_, n) => places[n]! >= 0);
  const links = edges.map(({ from, to, guess }) => ({ from: places[from]!, to: places[to]!, guess })).filter(({ from, to }) => from >= 0 && to >= 0);
  return { operators: kept, edges: links, known, byName: new Map(kept.map(({ name }, n) => [name, n])) };
}

function described(report: Report, names: string[], unit: number): Operator[] {
  const column = (name: string): string[] => Array.from(report.graphColumn(name, unit), (text) => report.textOf(text));
  const [short, types, originals, passes] = [column("short"), column("type"), column("originals"), column("passes")];
  const lines = (text: string): string[] => text.split("\n").filter(Boolean);
  return names.map((name, n) => {
    return { name, short: short[n]!, type: types[n]!, level: UNKNOWN, origin: 0, row: -1, originals: lines(originals[n]!), passes: lines(passes[n]!), value: "" };
  });
}

function byRows(report: Report, unit: number): Operator[] {
  const found = new Map<string, Operator>();
  for (const row of report.rowsOf(unit)) {
    const name = report.text("operator", row);
    if (!name || found.has(name) || !report.isCompared(row)) continue;
    const originals = report.text("golden", row).split(",").filter((one) => one && one !== "*");
    found.set(name, { name, short: name, type: report.text("type", row), level: UNKNOWN, origin: 0, row, originals, passes: [], value: "" });
  }
  return [...found.values()];
}

function rate(report: Report, operators: Operator[], byName: Map<string, number>, unit: number): void {
  for (const row of report.rowsOf(unit)) {
    const operator = operators[byName.get(report.text("operator", row)) ?? -1];
    if (!operator || !report.isOutput(row)) continue;
    if (operator.row < 0 || weight(report.levels[row]!) >= weight(operator.level)) {
      operator.level = report.levels[row]!;
      operator.origin = report.origins[row]!;
      operator.row = row;
    }
  }
  for (const operator of operators) if (operator.row >= 0) operator.value = valueOf(report, operator.row);
}

function valueOf(report: Report, row: number): string {
  const value = report.metric("relative_euclidean_distance", row);
  return value === null ? "" : format.number(value, 2);
}

function edgesOf(report: Report, unit: number): Edge[] {
  const [fanIn, inputs, guess] = [report.graphColumn("fanIn", unit), report.graphColumn("inputs", unit), report.graphColumn("guess", unit)];
  const edges: Edge[] = [];
  for (let to = 0, at = 0; to < fanIn.length; to++) {
    const seen = new Set<number>();
    for (let n = 0; n < fanIn[to]!; n++, at++) {
      const from = inputs[at]!;
      if (from < 0 || from === to || seen.has(from)) continue;
      seen.add(from);
      edges.push({ from, to, guess: guess[to] === 1 });
    }
  }
  return edges;
}

const chain = (count: number): Edge[] => Array.from({ length: Math.max(count - 1, 0) }, (_, n) => ({ from: n, to: n + 1, guess: true }));

/** Operators put together; `open` has the keys of groups that are not. */
export function fold(network: Network, folding: Folding, open: Set<string>): Folded {
  const keys = folding === "good" ? goodStretches(network) : folding === "scope" ? scopes(network) : network.operators.map(() => "");
  const shapes: Shape[] = [], known = new Map<string, number>();
  const sizes = new Map<string, number>();
  for (const key of keys) sizes.set(key, (sizes.get(key) ?? 0) + 1);
  const of = Int32Array.from(network.operators, ({ name, level, origin }, n) => {
    const key = keys[n]!;
    if (!key || open.has(key) || sizes.get(key)! < 2) return shapes.push({ members: [n], label: name, key: "", level, origin }) - 1;
    if (!known.has(key)) known.set(key, shapes.push({ members: [], label: key.replace(/^.*\u0000/, ""), key, level: UNKNOWN, origin: 0 }) - 1);
    const shape = shapes[known.get(key)!]!;
    shape.members.push(n);
    if (weight(level) >= weight(shape.level)) [shape.level, shape.origin] = [level, origin];
    return known.get(key)!;
  });
  return { shapes, of, edges: joined(network.edges, of) };
}

function joined(edges: Edge[], of: Int32Array): Edge[] {
  const found = new Map<string, Edge>();
  for (const { from, to, guess } of edges) {
    const [a, b] = [of[from]!, of[to]!];
    if (a !== b && !found.has(`${a} ${b}`)) found.set(`${a} ${b}`, { from: a, to: b, guess });
  }
  return [...found.values()];
}

/** Neighbours of bad operators stay; other good ones are one shape as far as no bad one lies between them. */
function goodStretches({ operators, edges }: Network): string[] {
  const keep = operators.map(({ level }) => isBad(level));
  for (const { from, to } of edges) {
    if (isBad(operators[from]!.level)) keep[to] = true;
    if (isBad(operators[to]!.level)) keep[from] = true;
  }
  const depth = new Int32Array(operators.length);
  const ordered = [...edges].sort((a, b) => a.to - b.to);
  for (const { from, to } of ordered) if (from < to) depth[to] = Math.max(depth[to]!, depth[from]! + Number(keep[from]! || keep[to]!));
  const parent = Int32Array.from(operators, (_, n) => n);
  const root = (n: number): number => { while (parent[n] !== n) n = parent[n] = parent[parent[n]!]!; return n; };
  for (const { from, to } of edges) if (!keep[from] && !keep[to] && depth[from] === depth[to]) parent[root(to)] = root(from);
  return operators.map((_, n) => (keep[n] ? "" : `${root(n)}\u0000`));
}

/** By the first parts of names: as many as it takes to have at least four groups. */
function scopes({ operators }: Network): string[] {
  const parts = operators.map(({ name }) => name.split(/[/.]/));
  for (let depth = 1; depth < 5; depth++) {
    const keys = parts.map((words) => (words.length > depth ? words.slice(0, depth).join("/") : ""));
    if (new Set(keys).size > 4) return keys;
  }
  return parts.map(([first]) => first!);
}

/** Operators from a faulty one to the outputs: the path of the finding if known, otherwise all bad operators downstream. */
export function pathFrom(network: Network, start: number, knownPath: string[]): Set<number> {
  const path = new Set(knownPath.map((name) => network.byName.get(name) ?? -1).filter((n) => n >= 0));
  if (path.size > 1) return path;
  if (!network.known) return new Set([start]);
  const next = new Map<number, number[]>();
  for (const { from, to } of network.edges) next.set(from, [...(next.get(from) ?? []), to]);
  const found = new Set([start]);
  for (const node of found) for (const to of next.get(node) ?? []) if (isBad(network.operators[to]!.level)) found.add(to);
  return found;
}
