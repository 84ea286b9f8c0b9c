"""Keys of a run: what submission checks, what Dataflow's workers can have, where a secret is read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.beam_flags import beam_options, is_dataflow
from launch.main import main
from pipeline.keys import check_key
from schemas.errors import UsageError
from tests.pipeline.test_run import RECORD, run, write
from tests.support.google import FakeGoogle, fake_google, use
from tests.support.scripted import raw_server
from verifier import google_keys
from verifier.engine import close_engine
from verifier.key_source import KeySource, google_tokens, secret, variable

SECRET = "projects/p/secrets/judge/versions/latest"
HERE = {"local": True, "dataflow": False, "in_image": False}
ELSEWHERE = HERE | {"local": False}
DATAFLOW = ELSEWHERE | {"dataflow": True}
IN_IMAGE = {"in_image": True}


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGoogle]:
    with fake_google() as running:
        use(running, monkeypatch, tmp_path)
        yield running
    google_keys._credentials.cache_clear()


@pytest.mark.parametrize(
    ("key", "where", "refused"),
    [
        (None, DATAFLOW, None),
        (variable("SET_KEY"), HERE, None),
        (variable("SET_KEY"), ELSEWHERE, None),
        (variable("SET_KEY"), DATAFLOW, "--api_key_secret projects/P/secrets/S"),
        (variable("SET_KEY"), DATAFLOW | IN_IMAGE, None),
        (variable("NO_KEY"), HERE, "NO_KEY is not set"),
        (variable("NO_KEY"), HERE | IN_IMAGE, "NO_KEY is not set"),
        (variable("NO_KEY"), ELSEWHERE, "NO_KEY is not set"),
        (variable("NO_KEY"), ELSEWHERE | IN_IMAGE, None),
        (variable("NO_KEY"), DATAFLOW | IN_IMAGE, None),
        (variable("NO_KEY"), DATAFLOW, "--key_in_image"),
        (secret(SECRET), HERE, "Secret Accessor"),
        (secret(SECRET), DATAFLOW, None),
        (google_tokens(), DATAFLOW, None),
    ],
)
def test_what_submission_says_of_a_key(
    key: KeySource | None,
    where: dict[str, bool],
    refused: str | None,
    google: FakeGoogle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read where workers read it, too. Secrets and accounts of other machines are theirs:
    whoever submits need not have access to them."""
    monkeypatch.setenv("SET_KEY", "the-key")
    monkeypatch.delenv("NO_KEY", raising=False)
    if refused is None:
        check_key(key, **where)
        assert google.asked == []
        return
    with pytest.raises(UsageError, match=refused):
        check_key(key, **where)


@pytest.mark.parametrize(
    ("runner", "expected"),
    [
        ("DataflowRunner", True),
        ("dataflow", True),
        ("apache_beam.runners.dataflow.DataflowRunner", True),
        ("FnApiRunner", False),
        ("FlinkRunner", False),
    ],
)
def test_dataflow_is_known_by_its_names(runner: str, expected: bool) -> None:
    """In the spellings that Beam takes."""
    beam_options([f"--runner={runner}"], [])
    assert is_dataflow(runner) is expected


def test_dataflow_refuses_a_key_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage, with the remedy; nothing is read or submitted, and the key is not shown."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-marker")
    source = write(tmp_path / "in.parquet", [RECORD])
    given = [f"--input={source}", f"--output={tmp_path}/out", "--verifier=openai:m"]
    assert main(["score", *given, "--runner=DataflowRunner", "--cache=none"]) == 2
    said = capsys.readouterr().err
    assert "no OPENAI_API_KEY: put the key into Secret Manager" in said
    assert "sk-marker" not in said
    assert not (tmp_path / "out").exists()


def test_a_run_with_a_secret(tmp_path: Path, google: FakeGoogle) -> None:
    """Its workers read it; what is written holds its name alone."""
    google.secrets[SECRET] = b"sk-marker"
    source = write(tmp_path / "in.parquet", [{"id": "a", **RECORD}])
    try:
        with raw_server() as server:
            summary = run(
                source,
                tmp_path / "out",
                verifier=server.target,
                api_key_secret=SECRET,
                cache="none",
            )
            keys = {asked.headers["Authorization"] for asked in server.asked}
    finally:
        close_engine()
    assert keys == {"Bearer sk-marker"}
    assert summary["records"] == 1
    assert summary["settings"]["api_key_secret"] == SECRET
    written = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert all(b"sk-marker" not in path.read_bytes() for path in written)
