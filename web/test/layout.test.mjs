// The layout of networks, without a browser.
import assert from "node:assert/strict";
import test from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: ["src/graph/layout.ts"], bundle: true, write: false, format: "esm" });
const { layOut, layersOf, spaced } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

const network = (count, ...edges) => ({ count, from: Int32Array.from(edges, ([from]) => from), to: Int32Array.from(edges, ([, to]) => to) });

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
