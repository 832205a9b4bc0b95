"""A suite over models and frameworks: configured in a few lines, read into pandas, plotted with matplotlib.

It needs the package, pandas, pyarrow and matplotlib: `python suite.py [RESULTS]` from the checkout's root.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import tare


@dataclass
class Config:
    """What one benchmark measures."""

    frameworks: list[str]
    models: list[str | dict]
    batch_sizes: list[int] = field(default_factory=lambda: [1, 8])
    dtype: str = "fp32"
    warm_up: int = 5
    """Iterations before the clock counts."""
    iterations: int = 50
    """Measured iterations of each process: at least so many, however fast they are."""
    processes: int = 5
    """Processes of each case. How much they differ is most of what an interval says."""

    def experiment(self, results: str | Path) -> tare.Experiment:
        """Return the experiment: every model on every framework, in one run."""
        return tare.Experiment(
            name="suite",
            model=self.models,
            backend=self.frameworks,
            batch=self.batch_sizes,
            precision=self.dtype,
            warm_up=self.warm_up,
            duration="10ms",
            maximum_duration="10s",
            minimum_queries=self.iterations,
            processes=self.processes,
            order="interleaved",
            metric=["latency", "throughput", "memory"],
            results=results,
        )


# A file with its own inputs, and an architecture that Tare writes itself, with synthetic inputs.
DIGITS = {
    "id": "digits",
    "path": "manifests/data/digits.onnx",
    "data": {"inputs": {"image": "manifests/data/digits-test-images.npy"}},
}
RESNET = {"id": "resnet18", "architecture": "resnet18:width=16,image=32"}


def frame(run: tare.Run) -> pd.DataFrame:
    """Return a row for each case that was measured, with its metrics and their intervals as columns."""
    rows = run.results.to_pandas()
    for case in rows[rows["outcome"] != "finished"].itertuples():
        # A framework that is not installed is a gap, and says what is missing.
        print(f"{case.model} on {case.backend}, batch {case.batch}: {case.reason}", file=sys.stderr)
    wanted = rows[rows["metric"].isin(["latency.p50", "throughput.samples"])]
    keys = ["model", "backend", "batch"]
    wide = wanted.pivot(index=keys, columns="metric", values=["value", "interval_low", "interval_high"])
    return wide.reset_index()


def plot(cases: pd.DataFrame, path: Path) -> None:
    """Draw latency and throughput over the batch size, with 95 % intervals."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    panels = [("latency.p50", 1e-6, "median latency, ms"), ("throughput.samples", 1, "samples per second")]
    for axis, (metric, scale, title) in zip(axes, panels, strict=True):
        for (model, backend), lines in cases.groupby(["model", "backend"]):
            value = lines["value", metric].astype(float) * scale
            low, high = (lines[bound, metric].astype(float) * scale for bound in ("interval_low", "interval_high"))
            spread = [(value - low).fillna(0), (high - value).fillna(0)]
            axis.errorbar(lines["batch"], value, yerr=spread, marker="o", capsize=4, label=f"{model} on {backend}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sorted(cases["batch"].unique()), labels=sorted(cases["batch"].unique()))
        axis.minorticks_off()
        axis.set(xlabel="batch size", title=title)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(path, dpi=120)


def main(results: str | Path = "results") -> Path:
    """Run the suite, and return the file of the plot."""
    config = Config(frameworks=["cpu", "openvino"], models=[DIGITS, RESNET], batch_sizes=[1, 4, 16])
    run = config.experiment(results).run(progress=True)
    cases = frame(run)
    print(cases.to_string(index=False))
    path = run.folder / "suite.png"
    plot(cases, path)
    print(path)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:])
