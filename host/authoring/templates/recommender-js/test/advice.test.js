import assert from "node:assert";
import { test } from "node:test";

import { lowest, readOptions } from "../src/advice.js";

const row = (case_id, value) => ({ case_id, metric: "latency.p50", value, unit: "ns" });

test("the lowest is advised", () => {
  const rows = [row("a", 300), row("b", 200), row("c", null)];
  assert.equal(lowest("latency.p50", rows).case_id, "b");
});

test("without values there is no advice", () => {
  assert.equal(lowest("latency.p50", []), undefined);
});

test("an empty metric is refused", () => {
  assert.throws(() => readOptions('{"metric": ""}'), /not empty/);
});
