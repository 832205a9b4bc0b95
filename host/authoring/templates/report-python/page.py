"""What the report writes, without the sandbox: `python3 -m unittest` tests it."""

import json


def options(text):
    """Return the heading of the options, a JSON object; an invalid one is a ValueError."""
    title = json.loads(text or "{}").get("title", "Median latency")
    if not isinstance(title, str) or not title:
        raise ValueError("title must be a text that is not empty")
    return title


def markdown(title, cases, results):
    """Return the page. Both views are lists of rows, each a dict by the names of columns."""
    medians = {
        row["case_id"]: f"{row['value']:g} {row['unit']}"
        for row in results
        if row["metric"] == "latency.p50" and row["value"] is not None
    }
    lines = [f"# {title}", "", "| case | model | batch | median |", "|---|---|---|---|"]
    for row in cases:
        # A case without a value is shown as a gap, never as a zero.
        median = medians.get(row["case_id"], "gap")
        lines.append(f"| {row['case_id']} | {row['model']} | {row['batch']} | {median} |")
    return "\n".join(lines) + "\n"
