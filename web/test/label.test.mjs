// Names in the graph, without a browser: what is left of them tells operators apart.
import assert from "node:assert/strict";
import test from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: ["src/graph/label.ts"], bundle: true, write: false, format: "esm" });
const { shortened } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
const within = (most) => (text) => text.length <= most;

test("the path becomes shorter first, then the parts behind the first one are left out", () => {
  const name = "model.8/m.0/cv2 · Conv + Sigmoid + Mul";
  const expected = [[40, name], [32, "m.0/cv2 · Conv + Sigmoid + Mul"], [27, "cv2 · Conv + Sigmoid + Mul"], [20, "cv2 · Conv + …"], [9, "Conv + …"]];
  for (const [most, text] of expected) assert.equal(shortened(name, within(most)), text);
});

test("a path without parts loses its first steps", () => {
  assert.equal(shortened("model/layer_210/block_4215/conv", within(16)), "block_4215/conv");
  assert.equal(shortened("model/layer_210/block_4215/conv", within(4)), "conv");
});

test("a name without steps keeps its beginning and its end", () => {
  assert.equal(shortened("res3c_branch2a + res3c_branch2a_relu", within(20)), "res3c_branch2a + …");
  assert.equal(shortened("trans_TransData_169", within(12)), "trans_…a_169");
});

test("there is always something to read", () => {
  for (const name of ["", "a", "abc", "a/b", "a · b + c"]) assert.equal(typeof shortened(name, () => false), "string");
  assert.equal(shortened("abc", () => false), "a…");
});
