// What the recommender advises, without the sandbox: `npm test` tests it.

/** Returns the metric of the options, a JSON object; throws a text if it is invalid. */
export function readOptions(text) {
  const { metric = "latency.p50" } = JSON.parse(text || "{}");
  if (typeof metric !== "string" || metric === "") throw "metric must be a text that is not empty";
  return metric;
}

/** Returns the rows of a view as objects by the names of columns; an empty cell is null. */
export function rows({ columns, rows }) {
  const value = (cell) => (cell.tag === "null" ? null : cell.val);
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, value(row[at])])));
}

/** Returns the row of the view `results` with the lowest value of a metric, or undefined. */
export function lowest(metric, results) {
  // A case without a value takes no part.
  const known = results.filter((row) => row.metric === metric && row.value !== null);
  return known.reduce((best, row) => (best && best.value <= row.value ? best : row), undefined);
}
