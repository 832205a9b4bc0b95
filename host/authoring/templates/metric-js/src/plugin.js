// The plugin: values of `values.js` in the types of the package `tare:plugin`.

import { readOptions, slowestAndRatio } from "./values.js";

/** A value; a text instead of a number is a gap with that reason, never a zero. */
function measurement(metric, value, unit, attributes) {
  const measure =
    typeof value === "string"
      ? { tag: "gap", val: { kind: "not-measured", reason: value } }
      : { tag: "value", val: value };
  return { metric, measure, interval: undefined, unit, direction: "lower", attributes };
}

export const metric = {
  describe() {
    return {
      id: "{{name}}",
      version: "0.1.0",
      summary: "Slowest query of a case, and how many times slower it is than a percentile.",
      license: "MIT OR Apache-2.0",
      options: [
        { name: "percentile", value: "Percentile that the slowest query is compared with; 50 by default." },
      ],
    };
  },

  columns() {
    return ["latency"];
  },

  compute(_case, columns, options) {
    // A text that is thrown is an error of the options: the user has to change the manifest.
    const percentile = readOptions(options);
    const latency = columns.find((column) => column.name === "latency");
    const { slowest, ratio } = slowestAndRatio(latency ? latency.data.val : [], percentile);
    const definition = `slowest latency over p${percentile}, by the nearest rank`;
    return [
      measurement("{{name}}.slowest", slowest, "ns", []),
      measurement("{{name}}.ratio", ratio, "1", [{ name: "definition", value: definition }]),
    ];
  },
};
