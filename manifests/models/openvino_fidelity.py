# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare what `host` and OpenVINO's own `benchmark_app` measure, in alternating rounds.

    python3 -m venv /tmp/models
    /tmp/models/bin/pip install openvino==2026.4.1 onnx==1.23.2 numpy==2.4.6
    /tmp/models/bin/python make_models.py /tmp/models
    PATH=/tmp/models/bin:$PATH python3 openvino_fidelity.py /tmp/models ROUNDS [OPTIONS OF host run]

Each round measures each model at each number of threads for a few seconds, with `host` and with
`benchmark_app`, in an order that changes from round to round. Printed are the medians of the rounds'
medians and minima in milliseconds, and the median of the ratios within rounds, host by
`benchmark_app`, with the interval that holds the true median with 95 % confidence or more.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
from math import comb
from pathlib import Path

MODELS = {
    "resnet50": ("image[1,3,224,224]", ["-ip", "f32"], ""),
    "bert-base": (
        "input_ids[1,128]",
        [],
        "[model.inputs.input_ids]\nlow = 0\nhigh = 255\ndimensions = { sequence = 128 }\n",
    ),
}
THREADS = [1, 2]
SECONDS = 5


def host(folder, model, threads, options):
    manifest = f"""schema = 1
[experiment]
name = "fidelity"
[[model]]
id = "{model}"
path = "{folder / model}.onnx"
{MODELS[model][2]}
[[backend]]
id = "openvino"
threads = {threads}
[measure]
warm-up = "1s"
duration = "{SECONDS}s"
minimum-queries = 10
[[metric]]
plugin = "latency"
"""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "fidelity.toml"
        path.write_text(manifest)
        command = ["host", "run", str(path), "--results", place, "--format", "json", *options]
        metrics = json.loads(output(command))["cases"][0]["metrics"]
    return metrics["latency.p50"]["value"] / 1e6, metrics["latency.minimum"]["value"] / 1e6


def benchmark_app(folder, model, threads, _options):
    shape, more, _ = MODELS[model]
    command = ["benchmark_app", "-m", str(folder / f"{model}.onnx"), "-d", "CPU", "-api", "sync"]
    command += ["-nireq", "1", "-hint", "none", "-nthreads", str(threads), "-shape", shape]
    command += ["-infer_precision", "f32", "-t", str(SECONDS), *more]
    printed = output(command)
    told = [re.search(rf"{what}:\s+([\d.]+) ms", printed) for what in ("Median", "Min")]
    return tuple(float(match[1]) for match in told)


def output(command):
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]} failed with {run.returncode}:\n{run.stderr or run.stdout}")
    return run.stdout


def interval(values, confidence=0.95):
    """From order statistics of the median; as wide as the values where there are too few."""
    values, count = sorted(values), len(values)
    for cut in range(count // 2, 0, -1):
        outside = 2 * sum(comb(count, k) for k in range(cut)) / 2**count
        if outside <= 1 - confidence:
            return values[cut - 1], values[count - cut]
    return values[0], values[-1]


def main():
    folder, rounds, options = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    cells = [(model, threads) for model in MODELS for threads in THREADS]
    seen = {cell: ([], []) for cell in cells}
    for turn in range(rounds):
        for cell in cells:
            both = [(host, 0), (benchmark_app, 1)]
            for tool, at in both if turn % 2 == 0 else reversed(both):
                seen[cell][at].append(tool(folder, *cell, options))
        print(f"\n{turn + 1} of {rounds} rounds\n\n{table(seen)}", flush=True)


def table(seen):
    lines = ["| model | threads | host p50 | app p50 | ratio | host minimum | app minimum | ratio |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (model, threads), (ours, theirs) in seen.items():
        line = f"| {model} | {threads} |"
        for at in (0, 1):
            our, their = ([pair[at] for pair in pairs] for pairs in (ours, theirs))
            ratios = [a / b for a, b in zip(our, their)]
            low, high = interval(ratios)
            line += f" {statistics.median(our):.1f} | {statistics.median(their):.1f} |"
            line += f" {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] |"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
