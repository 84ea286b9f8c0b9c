"""A progress line on the terminal while a local run goes on."""

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

from verifier.endpoint_state import Counters

EVERY_S = 0.5


@dataclass
class ProgressLine:
    """Writes one line over and over, and nothing at all where there is no terminal."""

    total: int | None
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    started: float = field(default_factory=time.monotonic)
    _written: float = 0.0
    _width: int = 0

    def update(self, counters: Counters) -> None:
        """Show where the run is, at most every EVERY_S seconds."""
        now = time.monotonic()
        if not self.stream.isatty() or now - self._written < EVERY_S:
            return
        self._written = now
        self._write(describe(counters, self.total, now - self.started))

    def close(self) -> None:
        """Clear the line."""
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        self.stream.write(f"\r{text:<{self._width}}" if text else f"\r{'':<{self._width}}\r")
        self.stream.flush()
        self._width = len(text)


def describe(counters: Counters, total: int | None, seconds: float) -> str:
    """Records, calls, failures, rate and time left, as one line."""
    rate = counters.records / seconds if seconds > 0 else 0.0
    left = (total - counters.records) / rate if total is not None and rate > 0 else None
    parts = [
        f"{counters.records}{'' if total is None else f'/{total}'} records",
        f"{counters.requests} calls",
        f"{counters.failures} failed",
        f"{rate:.1f} records/s",
        f"{_clock(left)} left" if left is not None else "",
    ]
    return "  ".join(p for p in parts if p)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
