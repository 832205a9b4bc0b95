"""What the recommender advises, without the sandbox: `python3 -m unittest` tests it."""

import json


def options(text):
    """Return the metric of the options, a JSON object; an invalid one is a ValueError."""
    metric = json.loads(text or "{}").get("metric", "latency.p50")
    if not isinstance(metric, str) or not metric:
        raise ValueError("metric must be a text that is not empty")
    return metric


def lowest(metric, results):
    """Return the row of the view `results` with the lowest value of a metric, or None."""
    # A case without a value takes no part.
    rows = [row for row in results if row["metric"] == metric and row["value"] is not None]
    return min(rows, key=lambda row: row["value"], default=None)
