// The layout of networks, without a browser.
import assert from "node:assert/strict";
import test from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: ["src/graph/layout.ts"], bundle: true, write: false, format: "esm" });
const { layOut, layersOf, spaced } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

// So high a view that nothing is wrapped.
const network = (count, ...edges) => ({ aspect: 1e-9, count, from: Int32Array.from(edges, ([from]) => from), to: Int32Array.from(edges, ([, to]) => to) });

test("every operator stands below those that feed it", () => {
  const { count, from, to } = network(5, [0, 1], [0, 3], [1, 4], [3, 4], [0, 4], [2, 4]);
  assert.deepEqual([...layersOf(count, from, to)], [0, 1, 1, 1, 2]);
});

test("an edge that goes back does no harm", () => {
  const { count, from, to } = network(3, [0, 1], [1, 2], [2, 0]);
  assert.deepEqual([...layersOf(count, from, to)], [0, 1, 2]);
});

test("positions keep their order and their distance, and are as near as can be", () => {
  assert.deepEqual(spaced([0, 5, 9]), [0, 5, 9]);
  assert.deepEqual(spaced([3, 3, 3]), [2, 3, 4]);
  assert.deepEqual(spaced([5, 0]), [2, 3]);
});

test("no two operators of a layer overlap, and long edges go round them", () => {
  const edges = Array.from({ length: 300 }, (_, n) => [n, n + 1 + (n % 7)]).filter(([, to]) => to < 300);
  const { x, y, bendStart } = layOut(network(300, ...edges));
  const seen = new Map();
  y.forEach((layer, n) => seen.set(layer, [...(seen.get(layer) ?? []), x[n]]));
  for (const places of seen.values()) {
    places.sort((a, b) => a - b);
    places.forEach((place, n) => assert.ok(n === 0 || place - places[n - 1] > 0.999));
  }
  edges.forEach(([from, to], n) => assert.equal(bendStart[n + 1] - bendStart[n], y[to] - y[from] - 1));
});

test("thousands of operators take a moment", () => {
  const edges = Array.from({ length: 5000 }, (_, n) => [[n, n + 1], [n, n + 2 + (n % 9)]]).flat().filter(([, to]) => to < 5000);
  const start = performance.now();
  layOut(network(5000, ...edges));
  assert.ok(performance.now() - start < 5000);
});

test("a long chain is wrapped to columns that fill the view, in the order of execution", () => {
  const edges = Array.from({ length: 59 }, (_, n) => [n, n + 1]);
  const { x, y, columns } = layOut({ ...network(60, ...edges), aspect: 0.5 });
  assert.ok(columns.length > 1);
  const places = Array.from(x, (at, n) => [columns.findLastIndex((left) => left <= at), y[n]]);
  places.slice(1).forEach(([column, row], n) => assert.ok(column > places[n][0] ? row === 0 : row === places[n][1] + 1));
  const high = Math.max(...y) + 1, wide = Math.max(...x) + 1;
  assert.ok(Math.min(0.5 / wide, 1 / high) > 3 / 60);
});

test("chains are straight", () => {
  const { x } = layOut(network(6, [0, 1], [1, 3], [3, 5], [0, 2], [2, 4], [4, 5]));
  assert.equal(new Set([x[1], x[3]]).size, 1);
  assert.equal(new Set([x[2], x[4]]).size, 1);
});

test("a drawing that drifts to one side is kept upright", () => {
  const edges = Array.from({ length: 400 }, (_, n) => [[n, n + 1], [Math.max(0, n - (n % 5)), n + 1]]).flat();
  const { x } = layOut(network(401, ...edges));
  assert.ok(Math.max(...x) < 40);
});
