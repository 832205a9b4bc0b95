"""What the metric computes, without the sandbox: `python3 -m unittest` tests it."""

import json
import math


def options(text):
    """Return the percentile of the options, a JSON object; an invalid one is a ValueError."""
    percentile = json.loads(text or "{}").get("percentile", 50.0)
    if not isinstance(percentile, (int, float)) or not 0 < percentile <= 100:
        raise ValueError(f"percentile must be above 0 and at most 100, got {percentile}")
    return float(percentile)


def slowest_and_ratio(latencies, percentile):
    """Return the slowest latency, and its ratio to a percentile by the nearest rank.

    Either is a number, or a text that says why there is none.
    """
    if not latencies:
        reason = "the case has no queries"
        return reason, reason
    ordered = sorted(latencies)
    usual = ordered[max(1, math.ceil(len(ordered) * percentile / 100)) - 1]
    slowest = float(ordered[-1])
    return slowest, slowest / usual if usual else "the percentile is zero"
