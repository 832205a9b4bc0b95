"""Runs that were executed, their reports and comparisons."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _metrics, _tare
from ._errors import CasesFailed, Interrupted, NothingToRun, PluginError, ResultsError, counted, plain
from ._installation import FOLDER
from ._progress import watcher
from ._table import Table

AXES = "model, backend, device, precision, batch, sequence_length, mode, scenario, rate, clients"

_RESULTS = f"""
SELECT c.case_id, {AXES}, outcome, reason, valid, metric, value, unit, direction, interval_low, interval_high,
       gap_reason, r.plugin_id AS metric_plugin, NOT starts_with(r.plugin_id, 'python:') AS sandboxed
FROM cases c LEFT JOIN results r USING (case_id) ORDER BY case_index, metric
"""


def _frame(page: str, height: int) -> str:
    """Return a page as a part of a notebook: its scripts run, and reach nothing of the notebook."""
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" style="width: 100%; height: {height}px; border: 0" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


class Run:
    """A run in its folder. Everything is read from there, so it can be opened at any later time."""

    def __init__(self, folder: str | os.PathLike[str], notices: list[str] | None = None) -> None:
        self.folder = Path(folder)
        """The run folder."""
        self.notices = notices or []
        """What the command line would have said beside the results, such as that a plugin was used for the first time."""
        self._functions: Sequence[Callable[..., Any]] = ()

    def __repr__(self) -> str:
        return f"<tare.Run {self.id}>"

    def _details(self) -> dict[str, Any]:
        return _tare.details(self.folder)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.folder.name

    @property
    def manifest(self) -> str:
        """The manifest that it ran, as text."""
        return self._details()["manifest"]

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended. An interrupted one has not, and `resume` continues it."""
        return self._details()["is_finished"]

    @property
    def counts(self) -> dict[str, int]:
        """How many cases finished, failed, are gaps, and were not reached."""
        names = ("finished", "failed", "gaps", "unreached")
        return dict(zip(names, self._details()["counts"], strict=True))

    @property
    def results(self) -> Table:
        """A row for each metric of each case, with the case's coordinates.

        A case without results, such as one that failed or is a gap, has one row, whose `reason` says why.
        `sandboxed` is false for values of Python functions.
        """
        return self.sql(_RESULTS)

    @property
    def cases(self) -> Table:
        """A row for each case: coordinates, outcome, and the measured quantities."""
        return self.table("cases")

    @property
    def views(self) -> list[str]:
        """The names of the run's tables, for `table` and `sql`."""
        return _tare.views()

    def table(self, view: str) -> Table:
        """Return one of the run's tables, such as `warnings`, `hardware` or `timeline`."""
        known = self.views
        if view not in known:
            near = _tare.nearest(view, known)
            help = f"did you mean `{near}`?" if near else "there are: " + ", ".join(known)
            raise plain(ResultsError, f"a run has no table `{view}`", help)
        source = "raw_benchmark_data" if view == "samples" else view
        return self.sql(f"SELECT * FROM {source}")

    def samples(self, case: str | None = None) -> Table:
        """Return the samples of a case by its id, or of all cases: a row for each timed query, in nanoseconds."""
        return Table(_tare.samples(self.folder, case))

    def sql(self, query: str) -> Table:
        """Answer an SQL query over the tables of this run. It can only read."""
        return Table(_tare.query_run(self.folder, query))

    def report(self, plugin: str = "html", *, to: str | os.PathLike[str] | None = None) -> Report:
        """Write a report, into the run folder or another one. A notebook shows it."""
        watching = watcher(False)
        files = _tare.reports(self.folder, plugin, to, FOLDER, [], watching)
        if not files:
            raise plain(PluginError, "; ".join(watching.notices) or f"`{plugin}` wrote no report")
        return Report(plugin, [Path(file) for file in files])

    def compute(self, *functions: Callable[..., Any]) -> Run:
        """Compute metrics that are Python functions, and keep their values in the run folder.

        See `tare.metric`. The functions run in this process, without a sandbox.
        """
        _metrics.compute(self, functions)
        return self

    def resume(self, *, progress: bool = False, install: bool = False) -> Run:
        """Continue a run that was interrupted. What is measured is left as it is.

        Metrics that are Python functions are computed if this is the run that `tare.Interrupted` had. The run folder
        does not have the functions, so a run that was opened later needs `compute`.
        """
        watching = watcher(progress)
        ended = _tare.resume(str(self.folder.absolute()), FOLDER, [], install, watching)
        return of_end(ended, watching.notices, self._functions)

    def raise_for_failures(self) -> Run:
        """Raise `CasesFailed` or `NothingToRun` where the command line's exit code would say so."""
        counts, reasons = self.counts, self._details()["reasons"]
        lines = "".join(f"\n  {case}: {reason}" for case, reason in reasons[:5])
        if len(reasons) > 5:
            lines += f"\n  and {len(reasons) - 5} more"
        if counts["failed"]:
            total = sum(counts.values())
            raise plain(CasesFailed, f"{counts['failed']} of {total} cases failed{lines}")
        if not counts["finished"]:
            raise plain(NothingToRun, f"nothing could be measured{lines}")
        return self


def of_end(ended: dict[str, Any], notices: list[str], functions: Sequence[Callable[..., Any]]) -> Run:
    """Compute functions on the run of an execution that has ended, and return it; or raise that it was interrupted."""
    if ended["folder"] is None:
        raise Interrupted("interrupted before the first case; nothing was measured")
    run = Run(ended["folder"], notices)
    run._functions = functions
    if ended["interrupted"]:
        left = run.counts["unreached"]
        text = f"interrupted; what is done is kept in {run.folder}"
        if left or not run.is_finished:
            text += f"\n  {counted(left, 'case')} {'is' if left == 1 else 'are'} left"
        if functions:
            names = ", ".join(f"`{_metrics.described(function)[0]}`" for function in functions)
            text += f"\n  not computed: {names}"
        if left or functions or not run.is_finished:
            text += "\n  help: `error.run.resume()` does the rest"
        raise Interrupted(text, run)
    if functions:
        _metrics.compute(run, functions)
    return run


@dataclass(frozen=True)
class Report:
    """A report that was written. A notebook shows its page."""

    plugin: str
    """The plugin that wrote it."""
    files: list[Path]
    """Its files, the main one first."""

    @property
    def path(self) -> Path:
        """Its main file."""
        return self.files[0]

    def _repr_html_(self) -> str | None:
        text = self.path.read_text(encoding="utf-8")
        if self.path.suffix == ".html":
            return _frame(text, 800)
        return text if self.path.suffix == ".svg" else f"<pre>{html.escape(text)}</pre>"


class Comparison:
    """Two runs, compared case by case. A notebook shows it as a page."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.runs: tuple[str, str] = answer["runs"]
        """The ids of the two runs."""
        self.changes = Table(answer["changes"])
        """A row for each figure of each case: both values, their ratio with its interval, and a verdict."""
        self.conditions: list[tuple[str, str | None, str | None]] = answer["conditions"]
        """What else differs: a fact, and its value in each run."""
        self.speed_up: tuple[float, float, float] | None = answer["speed_up"]
        """The geometric mean of the speed-ups, and its interval, if the runs can tell."""
        self.alone: int = answer["alone"]
        """The number of cases that only one of the runs has."""
        self._page: str = answer["page"]

    def __repr__(self) -> str:
        return f"<tare.Comparison of {self.runs[0]} and {self.runs[1]}>"

    def _repr_html_(self) -> str:
        return _frame(self._page, 800)


class Results:
    """The runs of a results folder."""

    def __init__(self, folder: str | os.PathLike[str] = "results") -> None:
        self.folder = Path(folder)
        """The results folder."""
        if not self.folder.is_dir():
            raise plain(
                ResultsError,
                f"there is no results folder {self.folder}",
                "name the folder that has `runs` in it; without a name it is `results` in the current folder",
            )

    def __repr__(self) -> str:
        return f"<tare.Results in {self.folder}>"

    def __len__(self) -> int:
        return len(_tare.list_runs(self.folder))

    def __iter__(self) -> Iterator[Run]:
        """Iterate over the runs, oldest first."""
        return (Run(row["folder"]) for row in _tare.list_runs(self.folder).rows())

    def __getitem__(self, name: str) -> Run:
        """Return a run by its id, a part of the id that fits no other run, or `latest`."""
        return Run(_tare.find_run(self.folder, name))

    @property
    def runs(self) -> Table:
        """A row for each run: id, experiment, start, state, and counts of cases."""
        return Table(_tare.list_runs(self.folder))

    def sql(self, query: str) -> Table:
        """Answer an SQL query over the database of all runs. It can only read."""
        return Table(_tare.database(self.folder, query))

    def sync(self) -> int:
        """Bring runs into the database that it lacks, and return their number."""
        return _tare.sync(self.folder)

    def compare(self, first: str, second: str = "latest", *, margin: float = 0.05) -> Comparison:
        """Compare two runs or baselines by name."""
        return compare(first, second, results=self.folder, margin=margin)


def results(folder: str | os.PathLike[str] = "results") -> Results:
    """Open a results folder, to look at old runs."""
    return Results(folder)


def compare(
    first: Run | str,
    second: Run | str,
    *,
    results: str | os.PathLike[str] = "results",
    margin: float = 0.05,
) -> Comparison:
    """Compare two runs. Ratios that stay within `margin` of 1 count as the same.

    A run is named by its id, a part of it, `latest`, its folder, a commit, or the name of a baseline.
    """

    def name(run: Run | str) -> str:
        return str(run.folder.absolute()) if isinstance(run, Run) else run

    return Comparison(_tare.compare(name(first), name(second), results, margin))
