"""Experiments: from keyword arguments or a manifest to a run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from . import _tare
from ._errors import UsageError, plain
from ._installation import FOLDER
from ._metrics import described
from ._progress import watcher
from ._run import Run, of_end
from ._table import Table

PathLike: TypeAlias = "str | os.PathLike[str]"
Table_: TypeAlias = "Mapping[str, Any]"
"""A table of a manifest, with the manifest's keys."""
Metric: TypeAlias = "str | Table_ | Callable[..., Any]"


class Plan:
    """The cases that a run would measure."""

    def __init__(self, cases: _tare.Table, at_least: float, left_out: int) -> None:
        self.cases = Table(cases)
        """A row for each case. `gap` says why one cannot be measured."""
        self.at_least = at_least
        """The fewest seconds that a run takes."""
        self.left_out = left_out
        """The number of cases that `limit` leaves out."""

    def __len__(self) -> int:
        """The number of cases, with gaps."""
        return len(self.cases)

    def __repr__(self) -> str:
        gaps = sum(row["gap"] is not None for row in self.cases.rows())
        return f"<tare.Plan of {len(self) - gaps} cases and {gaps} gaps; at least {self.at_least:.1f} s>"

    def _repr_html_(self) -> str | None:
        return self.cases._repr_html_()


class Experiment:
    """Something to measure.

    Either a manifest: its path, its text (which has more than one line), or its content as a dictionary. Or keyword
    arguments, which make one::

        tare.Experiment(model="resnet50", backend="cpu", batch=[1, 8], duration="1s")

    Keywords are the keys of a manifest with `_` for `-`. The axes of the matrix and the settings of `[measure]` are
    keywords of their own; an axis takes a value or a list. A model, backend, metric, report or recommender is a name,
    a dictionary with the manifest's keys, or a list of these. Paths are relative to the current folder.
    """

    def __init__(
        self,
        manifest: PathLike | Table_ | None = None,
        *,
        model: PathLike | Table_ | Sequence[PathLike | Table_] | None = None,
        backend: str | Table_ | Sequence[str | Table_] | None = None,
        # [experiment]
        name: str | None = None,
        description: str | None = None,
        seed: int | None = None,
        results: PathLike | None = None,
        plugins: PathLike | Sequence[PathLike] = (),
        # For each backend that is given by name.
        device: str | Sequence[str] | None = None,
        threads: int | None = None,
        # [matrix]
        batch: int | Sequence[int] | None = None,
        precision: str | Sequence[str] | None = None,
        sequence_length: int | Sequence[int] | None = None,
        mode: str | Sequence[str] | None = None,
        scenario: str | Sequence[str] | None = None,
        rate: Any = None,
        clients: int | Sequence[int] | None = None,
        include: Sequence[Table_] | None = None,
        exclude: Sequence[Table_] | None = None,
        limit: int | None = None,
        # [measure]
        warm_up: str | int | None = None,
        duration: str | None = None,
        maximum_duration: str | None = None,
        minimum_queries: int | None = None,
        processes: int | None = None,
        order: str | None = None,
        confidence: Table_ | None = None,
        pair: Sequence[str] | None = None,
        timeout: str | None = None,
        memory_limit: str | None = None,
        cold_cache: bool | None = None,
        pin: Any = None,
        nice: Any = None,
        device_sampling: str | None = None,
        latency_limit: str | None = None,
        latency_percentile: Any = None,
        find: str | None = None,
        rules: str | None = None,
        epochs: int | None = None,
        test_examples: int | None = None,
        offline_examples: int | None = None,
        multi_stream_examples: int | None = None,
        # Tables of their own.
        metric: Metric | Sequence[Metric] | None = None,
        report: str | Table_ | Sequence[str | Table_] | None = None,
        recommend: str | Table_ | Sequence[str | Table_] | None = None,
        alert: Sequence[Table_] | None = None,
        price: Sequence[Table_] | None = None,
        check: Table_ | None = None,
        **unknown: Any,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "unknown") and value is not None}
        _refuse(unknown)
        self._results = None if results is None else os.fspath(results)
        self._plugins = [os.fspath(path) for path in _list(plugins)]
        # Functions are no part of a manifest.
        self._functions = [it for it in _list(metric) if callable(it)]
        for function in self._functions:
            described(function)
        given["metric"] = [it for it in _list(metric) if not callable(it)]
        if manifest is None:
            self._source = {"path": "<keyword arguments>", "text": _manifest(given)}
            return
        settings = ("manifest", "results", "plugins", "metric")
        extra = [key for key in given if key not in settings] + (["metric"] if given["metric"] else [])
        if extra:
            raise plain(
                UsageError,
                f"`{extra[0]}` is given beside a manifest",
                "change it in the manifest, or give keyword arguments only. Beside a manifest there may be "
                "`results`, `plugins`, and functions as `metric`",
            )
        if isinstance(manifest, Mapping):
            self._source = {"path": "<manifest>", "text": _toml(manifest)}
        elif isinstance(manifest, str) and "\n" in manifest:
            self._source = {"path": "<manifest>", "text": manifest}
        else:
            self._source = {"path": os.fspath(manifest), "text": None}

    @property
    def manifest(self) -> str:
        """The manifest's text."""
        text = self._source["text"]
        return Path(self._source["path"]).read_text(encoding="utf-8") if text is None else text

    def __repr__(self) -> str:
        return f"<tare.Experiment of {self._source['path']}>"

    def check(self) -> Experiment:
        """Check all that can be known to be wrong before anything is planned, and raise it at once."""
        _tare.check(self._source, FOLDER, self._plugins)
        return self

    def plan(self) -> Plan:
        """Plan the experiment. It starts workers that look into the models and list devices, and measures nothing."""
        watching = watcher(False)
        return Plan(*_tare.plan(self._source, FOLDER, self._plugins, watching))

    def run(self, *, progress: bool = False, install: bool = False) -> Run:
        """Measure, compute metrics, write reports, and return the run.

        Ctrl-C, or a notebook's interrupt, stops the run and raises `tare.Interrupted`, whose `run` has what was done;
        `run.resume()` does the rest. Cases that fail are results with reasons and raise nothing: see
        `Run.raise_for_failures`.

        Args:
            progress: Show a bar in the terminal or notebook (with `tqdm`, if it is installed), and notices.
            install: Download vendors' runtimes that are missing. Without it nothing is ever downloaded.
        """
        watching = watcher(progress)
        ended = _tare.run(self._source, FOLDER, self._results, self._plugins, install, watching)
        return of_end(ended, watching.notices, self._functions)


def bench(
    model: PathLike | Sequence[PathLike],
    *,
    backend: str | Sequence[str] = "cpu",
    batch: int | Sequence[int] = 1,
    progress: bool = False,
    install: bool = False,
    **keywords: Any,
) -> Run:
    """Measure models: files, names of architectures such as `resnet50`, or categories of them.

    All other keywords are those of `tare.Experiment`.
    """
    keywords.setdefault("recommend", "hardware")
    experiment = Experiment(model=model, backend=backend, batch=batch, **keywords)
    return experiment.run(progress=progress, install=install)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, (str, os.PathLike, Mapping)) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _keywords() -> list[str]:
    import inspect

    return [name for name in inspect.signature(Experiment).parameters if name not in ("manifest", "unknown")]


def _refuse(unknown: Mapping[str, Any]) -> None:
    for name in unknown:
        known = _keywords()
        near = _tare.nearest(name, known)
        help = f"did you mean `{near}`?" if near else "the keywords are: " + ", ".join(f"`{it}`" for it in known)
        raise plain(UsageError, f"unknown keyword `{name}`", help)


def _table(given: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Take a manifest's keys from the keywords."""
    names = ((key, key.replace("-", "_")) for key in keys)
    return {key: given[name] for key, name in names if name in given}


def _manifest(given: Mapping[str, Any]) -> str:
    """Make a manifest of keywords."""
    models = [_model(it) for it in _list(given.get("model"))]
    if not models:
        raise plain(
            UsageError,
            "there is nothing to measure",
            "name a manifest, or give `model`: files of models, or names of architectures such as `resnet50`",
        )
    tables: list[Mapping[str, Any]] = []
    for one in models:
        if isinstance(one, Mapping):
            tables.append(one)
        else:
            taken = [str(table.get("id")) for table in tables]
            tables.extend({"id": id, key: value} for id, key, value in _tare.models(one, taken))
    of_backend = _table(given, ["device", "threads"])
    backends = [
        it if isinstance(it, Mapping) else {"id": it, **of_backend}
        for it in _list(given.get("backend")) or ["cpu"]
    ]

    def plugins(key: str) -> list[Mapping[str, Any]]:
        return [it if isinstance(it, Mapping) else {"plugin": it} for it in _list(given.get(key))]

    experiment = _table(given, ["name", "description", "seed"])
    experiment.setdefault("name", str(tables[0].get("id", "experiment")))
    axes = [key for key in _tare.keywords("matrix") if key not in ("model", "backend")]
    manifest: dict[str, Any] = {
        "schema": 1,
        "experiment": experiment,
        "model": tables,
        "backend": backends,
        "matrix": {"batch": 1, **_table(given, axes)},
        "measure": _table(given, _tare.keywords("measure")),
        "metric": plugins("metric"),
        "report": plugins("report"),
        "recommend": plugins("recommend"),
        "alert": _list(given.get("alert")),
        "price": _list(given.get("price")),
        "check": given.get("check"),
    }
    empty = ("metric", "report", "recommend", "alert", "price", "check", "measure")
    return _toml({key: value for key, value in manifest.items() if value or key not in empty})


def _model(model: Any) -> Any:
    if isinstance(model, (str, os.PathLike, Mapping)):
        return model if isinstance(model, Mapping) else os.fspath(model)
    help = "give a file, the name of an architecture such as `resnet50`, or a dictionary with the manifest's keys"
    raise plain(UsageError, f"`model` is {model!r}, which is no model", help)


def _toml(manifest: Mapping[str, Any]) -> str:
    """Return a manifest as text. A value that a manifest cannot have is named."""
    try:
        return _tare.to_toml(json.dumps(_plain(manifest, "")))
    except ValueError as error:
        raise plain(UsageError, f"the values of the manifest cannot be written as TOML: {error}") from None


def _plain(value: Any, path: str) -> Any:
    """Return a value in Python's own types, or say where in the manifest one is that TOML does not have."""

    def refused(why: str, help: str) -> Exception:
        return plain(UsageError, f"`{path}` is {value!r}, which {why}", help)

    # Numbers and arrays of NumPy and its like.
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None:
        raise refused("cannot be a value of a manifest", "leave the key out, or give it a value")
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise refused("is too large", "the integers of a manifest have 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise refused("is not a finite number", "give a number")
        return float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                inside = f" in `{path}`" if path else ""
                raise plain(UsageError, f"{key!r} cannot be a key of a manifest{inside}", "keys are text")
        return {key: _plain(it, f"{path}.{key}" if path else key) for key, it in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return [_plain(it, f"{path}[{index}]") for index, it in enumerate(value)]
    raise refused("cannot be a value of a manifest", "use text, numbers, lists and dictionaries")
