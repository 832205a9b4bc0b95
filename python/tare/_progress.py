"""What is shown while an experiment runs: nothing, or a bar."""

from __future__ import annotations

import sys
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

    It is drawn when a case starts or ends, and never while the clock runs: `tqdm`'s own thread is switched off.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None

    def notice(self, text: str) -> None:
        super().notice(text)
        self._print(text)

    def begin(self, total: int, done: int) -> None:
        tqdm = _tqdm()
        self._total, self._done = total, done
        if tqdm is not None:
            # A monitor would wake up beside the clock.
            tqdm.monitor_interval = 0
            self._bar = tqdm(total=total, initial=done, desc="Measuring", unit="process", mininterval=0)

    def started(self, case: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(case)

    def finished(self, case: str, reason: str | None) -> None:
        self._done += 1
        if reason is not None:
            self._print(f"{case}: {reason}")
        if self._bar is not None:
            self._bar.update(1)
        elif reason is None:
            self._print(f"{self._done}/{self._total} {case}")

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

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
