import assert from "node:assert";
import { test } from "node:test";

import { readOptions, slowestAndRatio } from "../src/values.js";

test("the slowest of four", () => {
  assert.deepEqual(slowestAndRatio([10n, 40n, 20n, 30n], 50), { slowest: 40, ratio: 2 });
});

test("no query is a gap", () => {
  assert.equal(slowestAndRatio([], 50).slowest, "the case has no queries");
});

test("an impossible percentile is refused", () => {
  assert.throws(() => readOptions('{"percentile": 0}'), /got 0/);
});
