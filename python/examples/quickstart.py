"""Measures a network on this machine's processor, and prints each case's median latency with its interval.

It needs nothing but the package: `python quickstart.py [RESULTS]`.
"""

import sys

import tare

folder = sys.argv[1] if len(sys.argv) > 1 else "results"
run = tare.bench("resnet18:image=32", backend="cpu", batch=[1, 8], duration="200ms", warm_up="50ms", results=folder)
for row in run.results.rows():
    if row["metric"] == "latency.p50":
        low, high = row["interval_low"], row["interval_high"]
        interval = "" if low is None else f" ({low:.0f} to {high:.0f})"
        print(f"{row['model']}, batch {row['batch']}: {row['value']:.0f} {row['unit']}{interval}")
