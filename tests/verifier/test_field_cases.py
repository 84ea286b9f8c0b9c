"""Cases from public bug reports: each is covered by tests of ours, and comes out right as it is.

The cases are no part of the project; without them these tests are skipped. What is widened from
each case to its whole kind stands in the tests that `COVERED_BY` names.
"""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.reasons import FailureReason as R
from schemas.verdict import Reading
from scoring.reply import read_reply
from tests.support.builders import TEMPLATES
from verifier.answer import Reply, read_answer
from verifier.endpoint import parse_endpoint
from verifier.fault import Action, Fault

TESTS = Path(__file__).parents[1]
CASES = TESTS.parents[1] / "shared" / "data" / "field_cases.jsonl"
pytestmark = pytest.mark.skipif(not CASES.exists(), reason=f"{CASES} is not there")

COVERED_BY = {
    "a01": "scoring/test_reply::test_the_form_may_vary",
    "a04": "scoring/test_reply::test_literals_and_escapes_are_repaired",
    "a05": "scoring/test_reply::test_stray_backslashes_cost_nothing",
    "a06": "scoring/test_reply::test_what_is_no_score_gives_none",
    "a07": "scoring/test_reply::test_no_beginning_of_a_reply_passes_for_the_whole scoring/test_reply::test_a_shortened_list_does_not_pass_for_a_full_one verifier/test_record_verifier::test_a_cut_off_reply_is_asked_for_once_more_with_twice_the_room verifier/test_answer::test_how_a_reply_ended",
    "a09": "verifier/test_answer::test_where_the_text_may_stand verifier/test_answer::test_faults",
    "a10": "scoring/test_reply::test_thinking_is_no_score",
    "a12": "scoring/test_reply::test_scores_of_a_critique",
    "a14": "scoring/test_reply::test_what_is_no_score_gives_none scoring/test_reply::test_no_answer_is_not_an_answer scoring/test_routing::test_an_unscored_field_is_never_accepted",
    "a15": "scoring/test_reply::test_missing_and_made_up_fields scoring/test_aggregate::test_a_reply_that_lacks_a_field_gives_no_document_signal",
    "a17": "scoring/test_reply::test_the_form_may_vary scoring/test_reply::test_a_loose_match_must_be_unique scoring/test_reply::test_quoted_values_are_no_verdict",
    "a18": "verifier/test_answer::test_faults scoring/test_place::test_without_any_verdict",
    "a19": "verifier/test_answer::test_where_the_text_may_stand scoring/test_hostile_replies::test_entries_may_be_json_text_once_more",
    "b01": "verifier/test_retry_after::test_what_headers_ask_for verifier/test_limits::test_an_asked_wait_is_kept_and_spread verifier/test_call::test_the_wait_that_a_server_asks_for_reaches_the_backoff",
    "b03": "verifier/test_call::test_a_wait_above_the_cap_is_not_slept_out verifier/test_retry_after::test_no_wait_breaks_the_call",
    "b04": "verifier/test_wordings::test_an_empty_account_stops_the_run verifier/test_call::test_a_fault_of_the_run_stops_it",
    "b05": "verifier/test_wordings::test_context_overflow verifier/test_call::test_what_will_not_pass_is_sent_once",
    "b07": "verifier/test_wordings::test_a_content_filter_concerns_one_record verifier/test_fault::test_a_filtered_prompt_names_its_category verifier/test_answer::test_how_a_reply_ended",
    "b08": "verifier/test_answer::test_faults verifier/test_answer::test_how_a_reply_ended",
    "b09": "verifier/test_answer::test_an_error_under_200 verifier/test_fault::test_errors_come_in_many_forms",
    "b11": "verifier/test_answer::test_padding_around_a_body_is_skipped verifier/test_call::test_an_answer_that_trickles_cannot_outlast_the_attempt",
    "b13": "verifier/test_call::test_a_body_that_stalls_is_a_timeout verifier/test_endpoint::test_settings_are_checked",
    "b14": "verifier/test_wordings::test_a_refused_parameter_is_named verifier/test_call::test_what_was_learned_is_not_asked_again verifier/test_request::test_what_a_dialect_lacks_is_absent verifier/test_request::test_the_reply_format_steps_down",
    "b15": "verifier/test_aliases::test_every_alias_is_taken_and_unique verifier/test_aliases::test_scores_come_back_under_the_fields_own_names verifier/test_endpoint::test_the_schema_is_valid_in_strict_mode",
    "b16": "scoring/test_reply::test_no_answer_is_not_an_answer scoring/test_reply::test_hostile_replies_end_soon",
    "b18": "verifier/test_wordings::test_a_bad_key_stops_the_run verifier/test_call::test_a_fault_of_the_run_stops_it verifier/test_call::test_the_key_is_in_one_header_and_nowhere_else",
    "b19": "verifier/test_endpoint::test_urls_are_joined",
    "d11": "verifier/test_limits::test_a_pool_works_in_order_and_never_beyond_its_limit verifier/test_limits::test_places_block_threads_at_the_limit",
}  # fmt: skip


def cases() -> dict[str, dict[str, Any]]:
    """Short id to case."""
    lines = CASES.read_text("utf-8").splitlines() if CASES.exists() else []
    return {case["id"].partition("-")[0]: case for case in map(json.loads, lines)}


def case(name: str) -> dict[str, Any]:
    return dict(cases()[name]["input"])


def test_every_case_of_replies_and_providers_is_covered() -> None:
    """Kinds a and b, and the one of unbounded concurrency: each by tests that exist."""
    wanted = {name for name, found in cases().items() if found["kind"] in "ab" or name == "d11"}
    assert wanted == set(COVERED_BY)
    missing = [t for tests in COVERED_BY.values() for t in tests.split() if not exists(t)]
    assert not missing


def exists(test: str) -> bool:
    module, _, name = test.partition("::")
    return name in functions(TESTS / f"{module}.py")


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


NAMES = {
    "per_field_score": "fields_numeric",
    "think_score": "document_critique",
    "incorrect_fields": "accuracy_audit",
}


def reading(name: str, fields: Sequence[str], text: str) -> Reading | R:
    try:
        return read_reply(TEMPLATES[NAMES[name]], fields, text)
    except RecordError as error:
        return error.reason


def scores(given: Mapping[str, Any], text: str) -> Mapping[str, float]:
    read = reading(given["template"], given["record_fields"], text)
    return read.field_scores if isinstance(read, Reading) else {}


SCORES: dict[str, list[dict[str, float]]] = {
    "a01": [{"vendor": 0.92, "total": 0.35}] * 4,
    "a04": [{"vendor": 0.8, "paid": 0.7}] * 2,
    "a05": [{"amount": 0.77, "date": 0.64}] * 3,
    "a06": [{"total": 0.91}] * 4,
    "a14": [{}] * 7,
    "a15": [{"vendor": 1.0}, {}, {"vendor": 1.0, "total": 1.0, "date": 1.0}],
    "a17": [{"vendor_name": 0.9, "total": 0.6}] * 5,
}


@pytest.mark.parametrize("name", SCORES)
def test_replies_score_as_they_should(name: str) -> None:
    given = case(name)
    assert [scores(given, text) for text in given["replies"]] == SCORES[name]


def test_what_is_said_of_the_replies() -> None:
    """Explanations and notes that the cases speak of."""
    given = case("a04")
    words = reading("per_field_score", given["record_fields"], given["replies"][1])
    assert isinstance(words, Reading)
    assert "None of the pages say True" in words.field_explanations["vendor"]
    assert "paid" not in words.field_explanations
    made_up = reading("per_field_score", ["vendor", "total", "date"], case("a15")["replies"][2])
    assert isinstance(made_up, Reading)
    assert any("currency" in note for note in made_up.notes)
    collision = case("a17")["collision"]
    assert (
        reading("per_field_score", collision["record_fields"], collision["reply"]) is R.UNPARSEABLE
    )


def test_critiques_score_as_they_should() -> None:
    """Reasoning is no score; a fraction is read as one, and noted."""
    for text in case("a10")["replies"]:
        read = reading("think_score", (), text)
        assert isinstance(read, Reading)
        assert read.document_score == 0.72
    for text, expected in case("a12")["replies_to_expected"].items():
        read = reading("think_score", (), text)
        assert isinstance(read, Reading)
        assert read.document_score == pytest.approx(expected)
        assert bool(read.notes) == ("0." in text or "1.0" in text)


def answers(given: Mapping[str, Any], now: datetime) -> Iterator[Reply | Fault]:
    http = given["http"]
    for one in http if isinstance(http, list) else [http]:
        body = one.get("body_text")
        if "body_template" in one:
            start, unit = one["body_template"]["choices"][0]["message"]["content"]
            one["body_template"]["choices"][0]["message"]["content"] = start + unit * 20_000
            body = json.dumps(one["body_template"])
        body = json.dumps(one["body"]) if body is None else body
        yield read_answer(one["status"], one.get("headers", {}), body.encode(), now)


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
RETRY, GIVE_UP, STOP, ADAPT = Action.RETRY, Action.GIVE_UP, Action.STOP, Action.ADAPT
FAULTS: dict[str, Sequence[tuple[Action, R, float | str | None]]] = {
    "a07": [(GIVE_UP, R.TRUNCATED, None)],
    "a18": [(GIVE_UP, R.REFUSAL, None)] * 3,
    "b01": [(RETRY, R.RATE_LIMITED, w) for w in (7.0, 7.0, 1.5, None, None)] + [(RETRY, R.PROVIDER_ERROR, 3.0)],
    "b03": [(RETRY, R.RATE_LIMITED, 86400.0), (RETRY, R.RATE_LIMITED, 9999999999.0)],
    "b04": [(STOP, R.QUOTA_EXHAUSTED, None)],
    "b07": [(GIVE_UP, R.CONTENT_FILTER, None)] * 2,
    "b08": [(RETRY, R.EMPTY_RESPONSE, None)] * 2 + [(GIVE_UP, R.CONTENT_FILTER, None)] * 2 + [(GIVE_UP, R.TRUNCATED, None)],
    "b09": [(RETRY, R.RATE_LIMITED, 5.0), (RETRY, R.PROVIDER_ERROR, None), (STOP, R.AUTH, None), (RETRY, R.PROVIDER_ERROR, None)],
    "b14": [(ADAPT, R.BAD_REQUEST, p) for p in ("max_tokens", "temperature", *["response_format"] * 3)],
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_answers_are_the_faults_they_should_be(name: str) -> None:
    faults = list(answers(case(name), NEW_YEAR))
    found = [(f.action, f.reason, f.wait or f.parameter) for f in faults if isinstance(f, Fault)]
    assert found == FAULTS[name]


OTHERS = {
    "b04": ("http", STOP, R.QUOTA_EXHAUSTED),
    "b05": ("http_for_r2", GIVE_UP, R.CONTEXT_LENGTH_EXCEEDED),
    "b15": ("http_if_violated", ADAPT, R.BAD_REQUEST),
    "b18": ("http_always", STOP, R.AUTH),
}


@pytest.mark.parametrize("name", OTHERS)
def test_single_answers_are_the_faults_they_should_be(name: str) -> None:
    key, action, reason = OTHERS[name]
    (fault,) = answers({"http": case(name)[key]}, NEW_YEAR)
    assert isinstance(fault, Fault)
    assert (fault.action, fault.reason) == (action, reason)


def text_of(answer: Reply | Fault) -> str:
    assert isinstance(answer, Reply), answer
    return answer.text


READ: dict[str, Callable[[list[Reply | Fault]], bool]] = {
    "a09": lambda found: [scores(case("a09"), text_of(a)) for a in found] == [{"vendor": 0.83}] * 3,
    "a19": lambda found: [scores(case("a19"), text_of(a)) for a in found] == [{"vendor": 0.81}] * 4,
    "b11": lambda found: "64" in text_of(found[0])
    and [f.reason for f in found[1:] if isinstance(f, Fault)] == [R.EMPTY_RESPONSE] * 3,
    "b16": lambda found: scores(case("b16"), text_of(found[0])) == {}
    and isinstance(found[1], Fault)
    and found[1].reason is R.TRUNCATED
    and scores(case("b16"), text_of(found[2])) == {"vendor": 0.7},
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_answers_are_read_as_they_should_be(name: str) -> None:
    assert READ[name](list(answers(case(name), NEW_YEAR)))


def test_base_urls_are_joined_as_they_should_be() -> None:
    """The path is completed, once, and a query stays."""
    joined = [parse_endpoint(f"{url}#m").url for url in case("b19")["base_urls"]]
    assert [url.partition("example")[2] for url in joined] == [
        "/openai/deployments/judge/chat/completions?api-version=2024-10-21",
        "/openai/v1/chat/completions",
        *["/v1/chat/completions"] * 3,
    ]
