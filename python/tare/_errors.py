"""Exceptions: one class for each kind of exit code of the command line, with its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._run import Run


@dataclass(frozen=True)
class Place:
    """A place in a manifest."""

    name: str
    """The manifest's file, or what stands for it."""
    line: int
    """The line, from 1."""
    column: int
    """The column in bytes, from 1."""
    label: str | None
    """What is wrong there."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    message: str
    """What is wrong."""
    causes: tuple[str, ...] = ()
    """Why, the nearest cause first."""
    help: str | None = None
    """What to do."""
    place: Place | None = None
    """Where it is, if it is in a manifest."""


class Error(Exception):
    """An error of Tare. Its text is that of the command line."""

    exit_code = 1
    """The exit code that the command line has for this kind of error."""

    def __init__(self, text: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems
        """What is wrong, in parts."""

    @property
    def help(self) -> str | None:
        """What to do, if something is known to help."""
        return next((problem.help for problem in self.problems if problem.help), None)


class UsageError(Error):
    """An argument is wrong."""

    exit_code = 2


class ManifestError(Error):
    """The manifest is wrong, or a file that it names is missing."""

    exit_code = 3


class PluginError(Error):
    """A plugin that is needed cannot be used; or a metric, report or recommender failed after measuring."""

    exit_code = 4
    run: Run | None = None
    """The run, if everything was measured and only the plugin's output is missing."""


class NothingToRun(Error):
    """Nothing could be measured: every case is a gap."""

    exit_code = 5


class CasesFailed(Error):
    """The run finished, but at least one case failed."""

    exit_code = 6


class ResultsError(Error):
    """Results are not available: no such run, damaged or lost files, a busy database, or an invalid query."""

    exit_code = 7


class Interrupted(KeyboardInterrupt):
    """The caller interrupted a run. What was done is kept.

    It is a `KeyboardInterrupt`, and so not an `Error`: code that handles errors must not handle a wish to stop.
    """

    exit_code = 130

    def __init__(self, text: str, run: Run | None = None) -> None:
        super().__init__(text)
        self.run = run
        """The run as far as it came, which `run.resume()` continues; None if nothing was measured yet."""


_CLASSES = {
    kind.exit_code: kind
    for kind in (UsageError, ManifestError, PluginError, NothingToRun, CasesFailed, ResultsError)
}


def of(exit_code: int, text: str, parts: list[dict[str, Any]]) -> BaseException:
    """Return the exception of an exit code, with its text and parts."""

    def problem(part: dict[str, Any]) -> Problem:
        place = part.get("place")
        return Problem(
            part["message"], tuple(part["causes"]), part["help"], Place(*place) if place else None
        )

    # The text begins on its own line: it has lines of a manifest, which the name of the class would shift.
    if exit_code == Interrupted.exit_code:
        return Interrupted(text)
    return _CLASSES.get(exit_code, Error)(text, tuple(problem(part) for part in parts))


def counted(count: int, noun: str) -> str:
    """Return a number of things, in words."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def plain(kind: type[Error], message: str, help: str | None = None) -> Error:
    """Return an error of this package's own, in the form of the others."""
    text = message if help is None else f"{message}\n  help: {help}"
    return kind(text, (Problem(message, help=help),))
