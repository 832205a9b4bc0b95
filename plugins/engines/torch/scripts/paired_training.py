"""Times passes and training steps of the digits network here and in Python, in turns.

    TARE_RUNTIME_TORCH=… paired_training.py HOST [--rounds 9] [--seconds 2] [--threads 1] [--batch 32]

HOST is the program `host`. Python's side is a usual loop with the same PyTorch, threads, weights, batches and optimiser, in a
process of its own. The side that goes first changes from round to round. Prints a table: medians over all rounds of each
side's median latency, the median over rounds of their ratio less one, and its interval by the sign test.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(__file__).resolve().parents[4] / "manifests" / "data"
TEST = 384
KINDS = {"inference": "", "training, SGD": "sgd", "training, Adam": "adam"}
RATES = {"sgd": 0.01, "adam": 0.002}
WARM_UP = 0.3

MANIFEST = """
schema = 1
experiment = {{ name = "paired", seed = 7 }}
[[model]]
id = "digits"
path = "{data}/digits-untrained.onnx"
data.inputs = {{ image = "{data}/digits-images.npy", target = "{data}/digits-labels.npy" }}
{backends}
[matrix]
batch = [{batch}]
mode = ["inference", "training"]
scenario = ["single-stream"]
exclude = [{{ backend = "adam", mode = "inference" }}]
[measure]
warm-up = "{warm_up}ms"
duration = "{seconds}s"
test-examples = {test}
[[metric]]
plugin = "latency"
[[report]]
plugin = "csv"
"""

BACKEND = """
[[backend]]
id = "{optimiser}"
plugin = "torch"
version = "^0.1"
device = "cpu:0"
threads = {threads}
options = {{ optimiser = "{optimiser}", learning-rate = {rate}, phases = "none" }}
"""


def ours(host, seconds, threads, batch):
    """Returns the median latency of each kind in nanoseconds, through the tool."""
    backends = [
        BACKEND.format(optimiser=name, rate=rate, threads=threads) for name, rate in RATES.items()
    ]
    text = MANIFEST.format(
        data=DATA, backends="".join(backends), batch=batch, seconds=seconds, test=TEST,
        warm_up=int(WARM_UP * 1000),
    )
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "it.toml").write_text(text)
        run = [host, "run", "it.toml", "--results", "results"]
        subprocess.run(run, cwd=folder, check=True, capture_output=True)
        (run,) = (folder / "results" / "runs").iterdir()
        cases = {}
        for line in (run / "journal.jsonl").read_text().splitlines():
            record = json.loads(line)
            cases[record["case-id"]] = (record["key"]["backend"], record["key"]["mode"])
        found = {}
        for line in (run / "results.jsonl").read_text().splitlines():
            record = json.loads(line)
            backend, mode = cases[record["case-id"]]
            kind = next(
                kind for kind, optimiser in KINDS.items()
                if (mode == "inference" and not optimiser) or (mode == "training" and optimiser == backend)
            )
            for value in record["values"]:
                if value["metric"] == "latency.p50":
                    found[kind] = value["value"]["Ok"]
        return found


def child(optimiser, seconds, threads, batch):
    """Prints the median latency of a usual loop in nanoseconds."""
    import numpy as np
    import torch
    from archives import Digits

    torch.set_num_threads(threads)
    model = Digits(DATA / "digits-untrained.onnx")
    images = np.load(DATA / "digits-images.npy")[:-TEST]
    labels = np.load(DATA / "digits-labels.npy")[:-TEST]
    batches = []
    for first in range(0, len(images), batch):
        rows = np.arange(first, first + batch) % len(images)
        batches.append((torch.from_numpy(images[rows]), torch.from_numpy(labels[rows])))
    rate = RATES.get(optimiser)
    if optimiser == "sgd":
        update = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    elif optimiser == "adam":
        update = torch.optim.Adam(model.parameters(), lr=rate)

    def step(image, target):
        loss = torch.nn.functional.cross_entropy(model(image), target)
        loss.backward()
        update.step()
        update.zero_grad()

    def infer(image, _):
        with torch.inference_mode():
            model(image)

    run = step if optimiser else infer
    model.train(bool(optimiser))
    times, at = [], 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < WARM_UP:
        run(*batches[at % len(batches)])
        at += 1
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        before = time.perf_counter_ns()
        run(*batches[at % len(batches)])
        times.append(time.perf_counter_ns() - before)
        at += 1
    print(statistics.median(times))


def theirs(seconds, threads, batch):
    """Returns the median latency of each kind in nanoseconds, in Python."""
    found = {}
    for kind, optimiser in KINDS.items():
        line = [sys.executable, __file__, "--child", optimiser or "none"]
        line += ["--seconds", str(seconds), "--threads", str(threads), "--batch", str(batch)]
        output = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        found[kind] = float(output)
    return found


def interval(values):
    """Returns the narrowest interval of ranks that holds the median with 95 % or more, and that confidence."""
    values, count = sorted(values), len(values)
    for low in range(count // 2, 0, -1):
        tail = sum(math.comb(count, below) for below in range(low)) / 2**count
        if 1 - 2 * tail >= 0.95:
            return values[low - 1], values[count - low], 1 - 2 * tail
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("host", nargs="?")
    parser.add_argument("--child")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    seconds, threads, batch = arguments.seconds, arguments.threads, arguments.batch
    if arguments.child:
        optimiser = "" if arguments.child == "none" else arguments.child
        return child(optimiser, seconds, threads, batch)
    host = os.path.abspath(arguments.host)
    rounds = []
    for number in range(arguments.rounds):
        if number % 2 == 0:
            left = ours(host, seconds, threads, batch)
            right = theirs(seconds, threads, batch)
        else:
            right = theirs(seconds, threads, batch)
            left = ours(host, seconds, threads, batch)
        rounds.append((left, right))
        print(f"round {number + 1}: {left} {right}", file=sys.stderr)
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}")
    print("| kind | Python | here | difference | interval |")
    print("|---|--:|--:|--:|---|")
    for kind in KINDS:
        here = statistics.median(left[kind] for left, _ in rounds) / 1e6
        python = statistics.median(right[kind] for _, right in rounds) / 1e6
        ratios = [(left[kind] / right[kind] - 1) * 100 for left, right in rounds]
        found = interval(ratios)
        bounds = "needs more rounds"
        if found:
            low, high, confidence = found
            bounds = f"{low:+.1f} to {high:+.1f} % ({confidence * 100:.1f} %)"
        middle = statistics.median(ratios)
        print(f"| {kind} | {python:.3f} ms | {here:.3f} ms | {middle:+.1f} % | {bounds} |")


if __name__ == "__main__":
    main()
