import assert from "node:assert";
import { test } from "node:test";

import { markdown, readOptions, rows, utf8 } from "../src/page.js";

test("a case without a value is a gap", () => {
  const cases = ["a", "b"].map((case_id) => ({ case_id, model: "digits", batch: 1n }));
  const results = [{ case_id: "a", metric: "latency.p50", value: 250, unit: "ns" }];
  const text = markdown("Median latency", cases, results);
  assert.ok(text.startsWith("# Median latency\n"), text);
  assert.ok(text.includes("| a | digits | 1 | 250 ns |"), text);
  assert.ok(text.includes("| b | digits | 1 | gap |"), text);
});

test("rows have the names of columns", () => {
  const table = { columns: ["x", "y"], rows: [[{ tag: "integer", val: 1n }, { tag: "null" }]] };
  assert.deepEqual(rows(table), [{ x: 1n, y: null }]);
});

test("a text becomes bytes", () => {
  assert.deepEqual(utf8("a µ"), new Uint8Array([97, 32, 194, 181]));
});

test("an empty title is refused", () => {
  assert.throws(() => readOptions('{"title": ""}'), /not empty/);
});
