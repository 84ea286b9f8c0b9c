"""The example scripts run, and show what they say."""

import asyncio
import json
import subprocess
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
from aiohttp import test_utils

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES.parent,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(name: str) -> ModuleType:
    spec = util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_script_finds_the_wrong_total() -> None:
    """The transposed amount is the lowest field; the record goes to review."""
    lines = run("score_in_python.py").splitlines()
    assert "total: Nothing in the document supports" in lines[0]
    assert lines[-1].startswith("human_review")


def test_the_pipeline_example_places_every_letter() -> None:
    """One line a letter, with its route."""
    lines = run("after_extraction.py").splitlines()
    assert sorted(line.split(" ", 2)[2] for line in lines) == sorted(
        load("after_extraction").LETTERS
    )


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ({"document": "Total 40.00", "output": {"total": 40}}, 200, '"total":0.9'),
        ({"document": "Total 40.00"}, 422, "output is null"),
        ({"output": {"total": 40}}, 422, "document are all missing"),
    ],
)
def test_the_service_scores_what_is_posted(body: object, status: int, expected: str) -> None:
    """Good records get scores, others an error that names the key."""

    async def post() -> tuple[int, str]:
        app = load("service").make_app("embedded")
        async with test_utils.TestClient(test_utils.TestServer(app)) as client:
            response = await client.post("/score", data=json.dumps(body))
            return response.status, await response.text()

    got, text = asyncio.run(post())
    assert got == status
    assert expected in text
