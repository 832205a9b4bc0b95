// The plugin: the advice of `advice.js` for the views of a run.

import { read } from "tare:plugin/views@{{wit}}";

import { lowest, readOptions, rows } from "./advice.js";

export const recommender = {
  describe() {
    return {
      id: "{{name}}",
      version: "0.1.0",
      summary: "Names the case with the lowest median latency.",
      license: "MIT OR Apache-2.0",
      options: [
        { name: "metric", value: "Metric of which the lowest value is best; latency.p50 by default." },
      ],
    };
  },

  recommend(options) {
    // Options are checked before the first view is read.
    const metric = readOptions(options);
    const best = lowest(metric, rows(read("results")));
    // Without values there is no advice.
    if (best === undefined) return [];
    return [
      {
        title: `use ${best.case_id}: lowest ${metric}`,
        explanation: `Its ${metric} is ${best.value} ${best.unit}, the lowest of all cases.`,
        cases: [best.case_id],
        attributes: [],
      },
    ];
  },
};
