// What the report writes, without the sandbox: `npm test` tests it.

/** Returns the heading of the options, a JSON object; throws a text if it is invalid. */
export function readOptions(text) {
  const { title = "Median latency" } = JSON.parse(text || "{}");
  if (typeof title !== "string" || title === "") throw "title must be a text that is not empty";
  return title;
}

/** Returns the rows of a view as objects by the names of columns; an empty cell is null. */
export function rows({ columns, rows }) {
  const value = (cell) => (cell.tag === "null" ? null : cell.val);
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, value(row[at])])));
}

/** Returns a text as bytes in UTF-8: QuickJS has no TextEncoder. */
export function utf8(text) {
  const bytes = unescape(encodeURIComponent(text));
  return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
}

/** Returns the page. */
export function markdown(title, cases, results) {
  const medians = new Map();
  for (const { case_id, metric, value, unit } of results) {
    if (metric === "latency.p50" && value !== null) medians.set(case_id, `${value} ${unit}`);
  }
  const lines = [`# ${title}`, "", "| case | model | batch | median |", "|---|---|---|---|"];
  for (const { case_id, model, batch } of cases) {
    // A case without a value is shown as a gap, never as a zero.
    lines.push(`| ${case_id} | ${model} | ${batch} | ${medians.get(case_id) ?? "gap"} |`);
  }
  return lines.join("\n") + "\n";
}
