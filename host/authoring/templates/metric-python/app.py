"""The plugin: values of `values.py` in the types of the package `tare:plugin`."""

import values
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import (
    Attribute,
    Description,
    Gap,
    Measure_Gap,
    Measure_Value,
    Measurement,
)


def measurement(name, value, unit, attributes):
    """A value; a text instead of a number is a gap with that reason, never a zero."""
    if isinstance(value, str):
        measure = Measure_Gap(Gap("not-measured", value))
    else:
        measure = Measure_Value(value)
    return Measurement(name, measure, None, unit, "lower", attributes)


class Metric(exports.Metric):
    def describe(self):
        option = Attribute("percentile", "Percentile that the slowest query is compared with; 50 by default.")
        summary = "Slowest query of a case, and how many times slower it is than a percentile."
        return Description("{{name}}", "0.1.0", summary, "MIT OR Apache-2.0", [option])

    def columns(self):
        return ["latency"]

    def compute(self, case, columns, options):
        try:
            percentile = values.options(options)
        except ValueError as error:
            # Invalid options are an error: the user has to change the manifest.
            raise Err(str(error)) from error
        latency = next((column for column in columns if column.name == "latency"), None)
        slowest, ratio = values.slowest_and_ratio(latency.data.value if latency else [], percentile)
        definition = Attribute("definition", f"slowest latency over p{percentile:g}, by the nearest rank")
        return [
            measurement("{{name}}.slowest", slowest, "ns", []),
            measurement("{{name}}.ratio", ratio, "1", [definition]),
        ]
