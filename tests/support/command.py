"""The `construct-beam` command as a user runs it: a process of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "launch.main"]


def construct_beam(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """The ended command with its output as text; `more` is what subprocess.run takes."""
    return subprocess.run(
        [*COMMAND, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=90,
        **more,
    )
