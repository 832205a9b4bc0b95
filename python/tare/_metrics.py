"""Metrics that are Python functions."""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from . import _tare
from ._errors import Interrupted, PluginError, Problem, UsageError, counted, plain
from ._table import Table

if TYPE_CHECKING:
    from ._run import Run

_Function = TypeVar("_Function", bound=Callable[..., Any])

DIRECTIONS = ("lower", "higher", "neutral")

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def metric(
    name: str | None = None, *, unit: str = "1", direction: str = "neutral"
) -> Callable[[_Function], _Function]:
    """Say what a function measures, so that it can be a metric.

    The function gets the measured samples of a case as a `tare.Table`, with a row for each query, and the case as a
    dictionary. It returns a number, a dictionary of numbers by name, or None if it has nothing to say of the case::

        @tare.metric(unit="ns", direction="lower")
        def spread(samples, case):
            latency = samples.to_polars()["latency_ns"]
            return latency.quantile(0.75) - latency.quantile(0.25)

    It runs in this process after measuring, without the sandbox of metric plugins: it can do all that the script
    can. Its values are kept in the run folder under `python:NAME`, with the hash of its source, and are marked as not
    sandboxed.
    """
    if direction not in DIRECTIONS:
        near = _tare.nearest(direction, list(DIRECTIONS))
        help = f"did you mean `{near}`?" if near else "it is `lower`, `higher` or `neutral`: which way is better"
        raise plain(UsageError, f"a metric has no direction `{direction}`", help)

    def mark(function: _Function) -> _Function:
        function.__tare_metric__ = (name or function.__name__, unit, direction)  # type: ignore[attr-defined]
        return function

    return mark


def described(function: Callable[..., Any]) -> tuple[str, str, str]:
    """Return the name, unit and direction of a function."""
    name, unit, direction = getattr(function, "__tare_metric__", (None, "1", "neutral"))
    name = name or getattr(function, "__name__", type(function).__name__)
    if not _NAME.fullmatch(name):
        raise plain(
            UsageError,
            f"`{name}` cannot be the name of a metric",
            "name it in letters, digits, `-` and `_`, with `@tare.metric(\"name\")`",
        )
    return name, unit, direction


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(getattr(code, "co_code", function))


def _values(answer: object) -> list[tuple[str, float]]:
    """Return what a function answered, by name."""
    if answer is None:
        return []
    if not isinstance(answer, dict):
        return [("", _number(answer))]
    for name in answer:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a value: use letters, digits, `-` and `_`")
    return [(name, _number(value)) for name, value in answer.items()]


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def compute(run: Run, functions: Iterable[Callable[..., Any]]) -> None:
    """Compute functions on all finished cases of a run, and keep their values.

    A function that raises costs its values for that case. Everything else is computed, and then the first error is
    raised.
    """
    errors: list[tuple[str, str, Exception]] = []
    todo = [(function, *described(function)) for function in functions]
    left = [name for _, name, _, _ in todo]
    try:
        finished = set(_tare.finished_cases(run.folder))
        cases = [case for case in run.cases.rows() if case["case_id"] in finished]
        samples = _tare.measured_samples(run.folder)
        for function, name, unit, direction in todo:
            kept: list[dict[str, Any]] = []
            try:
                for case in cases:
                    id = case["case_id"]
                    # A case that is missing there has no samples, or lost some, which is raised here.
                    measured = samples[id] if id in samples else _tare.samples(run.folder, id, "measured")
                    try:
                        values = _values(function(Table(measured), case))
                        kept.append({"case": id, "values": values, "error": None})
                    except Exception as error:
                        kept.append({"case": id, "values": [], "error": _text(error)})
                        errors.append((name, id, error))
            finally:
                # Also of a function that the caller interrupts.
                problem = _tare.keep_metric(run.folder, name, _source(function), unit, direction, kept)
            if problem is not None:
                run.notices.append(
                    f"values of metric `{name}` are in the run folder, and not yet in the database: {problem}"
                )
            left.remove(name)
    except KeyboardInterrupt as interrupt:
        names = ", ".join(left)
        text = (
            f"interrupted while metrics were computed; what is done is kept in {run.folder}\n"
            f"  not computed for all cases: {', '.join(f'`{name}`' for name in left)}\n"
            f"  help: `error.run.compute({names})` does the rest"
        )
        raise Interrupted(text, run) from interrupt
    if errors:
        name, id, error = errors[0]
        message = f"metric `{name}` has no value for case {id}: {_text(error)}"
        if len(errors) > 1:
            message += f"\n  and {counted(len(errors) - 1, 'more such error')}"
        help = f"the run and all other values are kept; correct the function, and call `error.run.compute({name})`"
        raised = PluginError(f"{message}\n  help: {help}", (Problem(message, help=help),))
        raised.run = run
        raise raised from error


def _text(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
