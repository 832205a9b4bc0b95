"""The plugin: the advice of `advice.py` for the views of a run."""

import advice
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.recommender import Recommendation
from wit_world.imports import views
from wit_world.imports.types import Attribute, Cell_Null, Description


def rows(view):
    """Return a view as a list of rows, each a dict by the names of columns."""
    table = views.read(view)
    return [
        {
            name: None if isinstance(cell, Cell_Null) else cell.value
            for name, cell in zip(table.columns, row)
        }
        for row in table.rows
    ]


class Recommender(exports.Recommender):
    def describe(self):
        option = Attribute("metric", "Metric of which the lowest value is best; latency.p50 by default.")
        summary = "Names the case with the lowest median latency."
        return Description("{{name}}", "0.1.0", summary, "MIT OR Apache-2.0", [option])

    def recommend(self, options):
        try:
            # Options are checked before the first view is read.
            metric = advice.options(options)
        except ValueError as error:
            raise Err(str(error)) from error
        best = advice.lowest(metric, rows("results"))
        # Without values there is no advice.
        if best is None:
            return []
        case, value, unit = best["case_id"], best["value"], best["unit"]
        title = f"use {case}: lowest {metric}"
        explanation = f"Its {metric} is {value:g} {unit}, the lowest of all cases."
        return [Recommendation(title, explanation, [case], [])]
