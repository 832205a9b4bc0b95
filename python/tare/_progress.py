"""What is shown while an experiment runs: nothing, or a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Silent:
    """Shows nothing, and keeps the notices."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        """Take a notice."""
        self.notices.append(text)

    def begin(self, total: int, done: int) -> None:
        """Measuring begins, with so many processes of cases, some of which were done before."""

    def started(self, case: str) -> None:
        """A process of a case starts."""

    def finished(self, case: str, reason: str | None) -> None:
        """A process of a case has ended; `reason` says why it failed."""

    def end(self) -> None:
        """Measuring has ended."""


class Bar(Silent):
    """Shows notices and a bar, on standard error or in a notebook.

    It is drawn when a case starts or ends, and never while the clock runs: `tqdm`'s own thread is switched off. If it
    cannot be drawn any longer, such as in a terminal that was closed, measuring goes on without it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None
        self._total = self._done = 0
        # A program without a console has no standard error.
        self._is_shown = sys.stderr is not None

    def notice(self, text: str) -> None:
        super().notice(text)
        self._draw(lambda: self._print(text))

    def begin(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._draw(self._begin)

    def started(self, case: str) -> None:
        if self._bar is not None:
            self._draw(lambda: self._bar.set_postfix_str(case))

    def finished(self, case: str, reason: str | None) -> None:
        self._done += 1
        self._draw(lambda: self._finished(case, reason))

    def end(self) -> None:
        if self._bar is not None:
            self._draw(self._bar.close)
            self._bar = None

    def _draw(self, action: Callable[[], object]) -> None:
        """Draw something. What is measured is worth more than the bar, so an error costs only the bar."""
        if not self._is_shown:
            return
        try:
            action()
        except Exception as error:
            self._is_shown = False
            self.notices.append(f"progress is not shown any longer: {type(error).__name__}: {error}")
            if self._bar is not None:
                # It would draw once more when it is deleted.
                self._bar.disable = True
                self._bar = None

    def _begin(self) -> None:
        tqdm = _tqdm()
        if tqdm is not None:
            # A monitor would wake up beside the clock.
            tqdm.monitor_interval = 0
            self._bar = tqdm(
                total=self._total, initial=self._done, desc="Measuring", unit="process", mininterval=0
            )

    def _finished(self, case: str, reason: str | None) -> None:
        if reason is not None:
            self._print(f"{case}: {reason}")
        if self._bar is not None:
            self._bar.update(1)
        elif reason is None:
            self._print(f"{self._done}/{self._total} {case}")

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)


def _tqdm() -> Any:
    """Return the bar that fits a terminal or a notebook, if there is one."""
    try:
        import warnings

        with warnings.catch_warnings():
            # Without `ipywidgets` it draws a bar of text in notebooks, and says so.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


def watcher(progress: bool) -> Silent:
    """Return what is told of an experiment's progress."""
    return Bar() if progress else Silent()
