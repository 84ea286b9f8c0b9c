"""Replies that are built to mislead or to stall the reader."""

import json

import pytest

from schemas.errors import RecordError
from scoring.aggregate import aggregate
from scoring.reply import read_reply
from tests.support.builders import TEMPLATES, verdict

AB = ("a", "b")
GOOD = {"a": {"explanation": "e", "score": 92}, "b": {"explanation": "e", "score": 35}}


def numeric(text: str, fields: tuple[str, ...] = AB) -> dict[str, float]:
    return dict(read_reply(TEMPLATES["fields_numeric"], fields, text).field_scores)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("document_critique", "<score>" * 40_000),
        ("document_critique", "<score>" + "<" * 100_000),
        ("document_critique", "<score>" + " " * 200_000 + "x</score>"),
        ("fields_numeric", '{"a": "' + "\\" * 100_001),
        ("fields_numeric", "{" + "'\\" * 50_000),
        ("fields_numeric", json.dumps({"a": {"score": " " * 100_000 + "x"}})),
    ],
)
def test_no_pattern_runs_away(name: str, text: str) -> None:
    """A few hundred kilobytes of bait are refused within the test's time limit."""
    with pytest.raises(RecordError):
        read_reply(TEMPLATES[name], AB, text)


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 6000, '"' + "9" * 6000 + '"'])
def test_integers_of_any_size_are_no_scores(number: str) -> None:
    """Neither an overflow nor the limit on digits stops the other fields."""
    assert numeric(f'{{"a": {{"score": {number}}}, "b": {{"score": 91}}}}') == {"b": 0.91}


def test_a_closing_think_tag_inside_the_json_ends_no_reasoning() -> None:
    """An explanation may quote the document."""
    quoting = {**GOOD, "a": {"explanation": "the text says </think> here", "score": 92}}
    assert numeric(json.dumps(quoting)) == {"a": 0.92, "b": 0.35}


def test_an_entry_left_of_a_cut_reply_is_no_verdict_on_fields_of_those_names() -> None:
    """`explanation` and `score` of one inner entry are not the fields called so."""
    cut = '{"explanation": {"explanation": "none given", "score": 12}, "score": {"explan'
    with pytest.raises(RecordError):
        numeric(cut, ("explanation", "score"))


def test_entries_may_be_json_text_once_more() -> None:
    """Some models encode each value."""
    twice = {name: json.dumps(entry) for name, entry in GOOD.items()}
    assert numeric(json.dumps(twice)) == {"a": 0.92, "b": 0.35}


def test_wrappers_may_be_nested() -> None:
    """Objects around the answer whose one key is no field."""
    assert numeric(json.dumps({"result": {"fields": GOOD}})) == {"a": 0.92, "b": 0.35}


def test_lone_surrogates_do_not_reach_the_outputs() -> None:
    """Explanations and unmatched names are written out."""
    reply = '{"explanation": "x", "incorrect_fields": ["\\ud800zz"], "confidence_score": 9}'
    (name,) = read_reply(TEMPLATES["accuracy_audit"], AB, reply).unmatched_names
    assert name == "\\ud800zz"
    text = '{"a": {"explanation": "\\udfff", "score": 1}, "b": {"explanation": "y", "score": 2}}'
    scores = aggregate(AB, [verdict("fields_numeric", AB, text)])
    assert all(f.explanation and f.explanation.encode() for f in scores.fields)


def test_an_audit_of_a_whole_output_may_name_any_path_in_it() -> None:
    """An array is the one field `$`; `[0].price` is in it."""
    reply = json.dumps({"incorrect_fields": [{"field_name": "[0].price"}], "confidence_score": 9})
    assert read_reply(TEMPLATES["accuracy_audit"], ("$",), reply).field_scores == {"$": 0.1}
