// What the metric computes, without the sandbox: `npm test` tests it.

/** Returns the percentile of the options, a JSON object; throws a text if it is invalid. */
export function readOptions(text) {
  const { percentile = 50 } = JSON.parse(text || "{}");
  if (typeof percentile !== "number" || !(percentile > 0 && percentile <= 100)) {
    throw `percentile must be above 0 and at most 100, got ${percentile}`;
  }
  return percentile;
}

/** Returns the slowest of the latencies, whole numbers of nanoseconds, and its ratio to a percentile by the nearest rank.
 * Either is a number, or a text that says why there is none. */
export function slowestAndRatio(latencies, percentile) {
  if (latencies.length === 0) {
    const reason = "the case has no queries";
    return { slowest: reason, ratio: reason };
  }
  // They may be BigInts. A typed array is sorted as numbers, much faster than an array, and exact up to 104 days.
  const sorted = Float64Array.from(latencies, Number).sort();
  const slowest = sorted[sorted.length - 1];
  const rank = Math.max(1, Math.ceil((sorted.length * percentile) / 100));
  const usual = sorted[rank - 1];
  return { slowest, ratio: usual === 0 ? "the percentile is zero" : slowest / usual };
}
