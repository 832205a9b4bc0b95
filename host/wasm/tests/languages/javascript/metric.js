// A metric in JavaScript: the mean latency.
export const metric = {
  describe() {
    return {
      id: "javascript-mean",
      version: "1.0.0",
      summary: "The mean latency.",
      license: "MIT",
      options: [],
    };
  },

  columns() {
    return ["latency"];
  },

  compute(_case, columns, _options) {
    const latency = columns.find((column) => column.name === "latency");
    let measure = { tag: "gap", val: { kind: "not-measured", reason: "the case has no latencies" } };
    if (latency) {
      let sum = 0;
      for (const value of latency.data.val) sum += Number(value);
      measure = { tag: "value", val: sum / latency.data.val.length };
    }
    return [
      {
        metric: "javascript-mean.latency",
        measure,
        interval: undefined,
        unit: "ns",
        direction: "lower",
        attributes: [],
      },
    ];
  },
};
