"""Finds change points with Apache Otava, with its own defaults.

Reads a JSON list of series from standard input, and writes the list of the indices found in each."""

import json
import sys
import time

from otava.analysis import compute_change_points

series = json.load(sys.stdin)
started = time.perf_counter()
found = [[int(point.index) for point in compute_change_points(values)[0]] for values in series]
json.dump({"found": found, "seconds": time.perf_counter() - started}, sys.stdout)
