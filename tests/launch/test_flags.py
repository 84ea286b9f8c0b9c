"""Command-line flags: made from settings, checked by name."""

import argparse
import os
from collections.abc import Sequence

import pytest

from launch.beam_flags import beam_options, local_processes
from launch.flags import add_flags, flag_names, refuse_unknown, settings_from
from launch.main import main
from pipeline.settings import ScoreFlags
from schemas.errors import UsageError
from scoring.aggregate import ScoreScale

NEEDED = ["--verifier", "embedded", "--input", "in", "--output", "out"]


def parse(arguments: Sequence[str]) -> ScoreFlags:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser, ScoreFlags)
    return settings_from(ScoreFlags, parser.parse_args(arguments))


def test_flags_become_typed_settings() -> None:
    """Numbers, choices and switches are read; the rest keeps its default."""
    flags = parse([*NEEDED, "--max_concurrency", "8", "--score_scale", "raw", "--overwrite"])
    assert (flags.max_concurrency, flags.score_scale, flags.overwrite) == (8, ScoreScale.RAW, True)
    assert flags.max_records_in_flight == ScoreFlags.model_fields["max_records_in_flight"].default


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--max_concurrency", "0"], "--max_concurrency 0: "),
        (["--max_concurrency", "many"], "--max_concurrency many: "),
        (["--record_timeout", "300"], "--record_timeout 300: "),
        (["--attempt_timeout", "-1"], "--attempt_timeout -1: "),
    ],
)
def test_bad_values_name_the_flag(extra: list[str], message: str) -> None:
    """An error shows the flag, the value and what is wrong with it."""
    with pytest.raises(UsageError, match=message):
        parse([*NEEDED, *extra])


def test_a_missing_flag_is_named() -> None:
    """What is needed and not given is said by name."""
    with pytest.raises(UsageError, match="--output is needed"):
        parse(["--verifier", "embedded", "--input", "in"])


def test_a_flag_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Two values for one flag contradict each other."""
    with pytest.raises(SystemExit) as exit_info:
        parse([*NEEDED, "--output", "elsewhere"])
    assert exit_info.value.code == 2
    assert "--output was given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--max_concurency=3", "did you mean --max_concurrency?"),
        ("--max-concurrency=3", "did you mean --max_concurrency?"),
        ("--runer=X", "did you mean --runner?"),
        ("--qqq", "see --help"),
        ("stray", "unexpected argument: stray"),
    ],
)
def test_unknown_flags_are_refused_with_the_nearest_name(argument: str, message: str) -> None:
    """A typing error never silently falls back to a default."""
    with pytest.raises(UsageError) as error:
        refuse_unknown([argument], ["--max_concurrency", "--runner", "--input"])
    assert message in str(error.value)


def test_beam_flags_are_passed_on_and_checked() -> None:
    """Beam's own flags go to Beam, unknown ones nowhere; the local runner is the default."""
    options = beam_options(["--direct_num_workers=2"], ["--input"]).get_all_options()
    assert (options["runner"], options["direct_num_workers"]) == ("FnApiRunner", 2)
    assert beam_options(["--runner=X"], []).get_all_options()["runner"] == "X"
    with pytest.raises(UsageError, match="did you mean --direct_num_workers"):
        beam_options(["--direct_num_worker=2"], ["--input"])


def test_flag_names_lists_ours() -> None:
    """The list that suggestions are made from holds every setting."""
    parser = argparse.ArgumentParser()
    add_flags(parser, ScoreFlags)
    names = {field.alias or name for name, field in ScoreFlags.model_fields.items()}
    assert {f"--{n}" for n in names} <= set(flag_names(parser))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "--input", "x", "--output", "y"], "--verifier is needed: embedded, openai:"),
        (["score", *NEEDED, "--verdict", "z"], "did you mean --verdicts?"),
        (["demo", "--ouput", "x"], "did you mean --output?"),
        (["rescore"], "name either --verdicts or --replies"),
    ],
)
def test_wrong_usage_ends_with_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the thing and the remedy, without a traceback."""
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_processes_of_a_local_run() -> None:
    """One, unless several are asked for: budgets and rates are divided among them."""
    several = ["--direct_running_mode=multi_processing"]
    assert local_processes(beam_options([], [])) == 1
    assert local_processes(beam_options(["--direct_num_workers=3"], [])) == 1
    assert local_processes(beam_options([*several, "--direct_num_workers=3"], [])) == 3
    assert local_processes(beam_options([*several, "--direct_num_workers=0"], [])) == os.cpu_count()
