// Axes, without a browser: whatever the numbers are, their marks come to an end.
import assert from "node:assert/strict";
import test from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: ["src/scale.ts"], bundle: true, write: false, format: "esm" });
const { decades, logTicks, ticks } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

test("marks are round numbers within the axis", () => {
  assert.deepEqual(ticks([0, 1], 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks([-3, 12], 4), [0, 5, 10]);
  assert.deepEqual(ticks([0.1, 0.3], 2), [0.1, 0.2, 0.3]);
});

test("numbers without a round one between them have their own as marks", () => {
  assert.deepEqual(ticks([1e17, 1e17], 6), [1e17]);
  assert.deepEqual(ticks([1, 1 + Number.EPSILON], 6), [1, 1 + Number.EPSILON]);
  assert.deepEqual(ticks([0, Number.MIN_VALUE], 6), [0]);
  assert.deepEqual(ticks([-Number.MAX_VALUE, Number.MAX_VALUE], 6), [-Number.MAX_VALUE, Number.MAX_VALUE]);
});

test("a logarithmic axis goes from power to power of ten", () => {
  assert.deepEqual(decades(0.02, 3), [0.01, 10]);
  assert.deepEqual(decades(1, 1), [1, 10]);
});

test("it ends where the numbers do", () => {
  const whole = decades(Number.MIN_VALUE, Number.MAX_VALUE);
  assert.deepEqual(whole, [1e-323, 1e308]);
  const marks = logTicks(whole);
  assert.ok(marks.length > 1 && marks.length < 12 && marks.every((mark) => mark > 0 && Number.isFinite(mark)));
});
