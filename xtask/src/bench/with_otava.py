"""Finds change points with Apache Otava, with its own defaults.

Reads a JSON list of series from a file, and writes the positions found in each, and the time."""

import json
import sys
import time

from otava.analysis import compute_change_points

with open(sys.argv[1], encoding="utf-8") as file:
    series = json.load(file)
started = time.perf_counter()
found = [[int(point.index) for point in compute_change_points(values)[0]] for values in series]
json.dump({"found": found, "seconds": time.perf_counter() - started}, sys.stdout)
