"""A metric in Python: the mean latency."""

from wit_world import exports
from wit_world.imports.types import (
    Description,
    Gap,
    Measure_Gap,
    Measure_Value,
    Measurement,
)


class Metric(exports.Metric):
    def describe(self):
        return Description("python-mean", "1.0.0", "The mean latency.", "MIT", [])

    def columns(self):
        return ["latency"]

    def compute(self, case, columns, options):
        latencies = [column.data.value for column in columns if column.name == "latency"]
        if latencies:
            measure = Measure_Value(sum(latencies[0]) / len(latencies[0]))
        else:
            measure = Measure_Gap(Gap("not-measured", "the case has no latencies"))
        return [Measurement("python-mean.latency", measure, None, "ns", "lower", [])]
