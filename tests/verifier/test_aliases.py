"""Fields whose names a provider refuses as keys: sent under others, scored under their own."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import RecordError
from scoring.names import FieldNames
from scoring.reply import read_reply
from tests.support.builders import TEMPLATES
from verifier.aliases import aliases_of, is_plain, read_aliased

NUMERIC = TEMPLATES["fields_numeric"]
ODD = ("Betrag (EUR)", "番号", "zeilen[]", "z" * 80, "", "plain")


def reply(scores: dict[str, Any]) -> str:
    return json.dumps({k: {"explanation": f"see {k}", "score": v} for k, v in scores.items()})


@pytest.mark.parametrize(
    ("fields", "aliases"),
    [
        (("a", "b.c", "d-e", "F_9"), {}),
        (("Betrag (EUR)",), {"Betrag (EUR)": "Betrag_EUR"}),
        (("番号", "a"), {"番号": "field_1"}),
        (("a", ""), {"": "field_2"}),
        (("a b", "A_B"), {"a b": "field_1"}),
        (("a/b", "a:b"), {"a/b": "a_b", "a:b": "field_2"}),
        (("field_2", "番号"), {"番号": "field_4"}),
    ],
)
def test_what_fields_are_called_instead(fields: tuple[str, ...], aliases: dict[str, str]) -> None:
    """What can be read of a name stays; a plain name is sent as it is."""
    assert aliases_of(fields) == aliases


@given(st.lists(st.text(max_size=90) | st.sampled_from(ODD), unique=True, max_size=12))
def test_every_alias_is_taken_and_unique(fields: list[str]) -> None:
    """Every provider takes it, and it is nobody else's name, minding neither case nor separators."""
    aliases = aliases_of(fields)
    assert set(aliases) == {f for f in fields if not is_plain(f)}
    assert all(map(is_plain, aliases.values()))
    sent = [aliases.get(f, f) for f in fields]
    assert len(set(sent)) == len(fields)
    names = FieldNames(sent)
    assert all(names.match(alias.upper()) == alias for alias in aliases.values())


@given(st.lists(st.text(max_size=20), unique=True, min_size=1, max_size=8))
def test_scores_come_back_under_the_fields_own_names(fields: list[str]) -> None:
    """Whether the model answered with the aliases or with the names."""
    given_scores = {f: 10 + i for i, f in enumerate(fields)}
    expected = {f: s / 100 for f, s in given_scores.items()}
    aliases = aliases_of(fields)
    aliased = reply({aliases.get(f, f): s for f, s in given_scores.items()})
    read = read_aliased(NUMERIC, fields, aliased)
    assert read.field_scores == expected
    assert set(read.field_explanations) == set(fields)
    assert read_aliased(NUMERIC, fields, reply(given_scores)).field_scores == expected


def test_notes_name_the_field() -> None:
    """Not its alias, which nobody knows."""
    read = read_aliased(NUMERIC, ("番号", "a"), reply({"field_1": 900, "a": 50}))
    assert read.field_scores == {"a": 0.5}
    fitting = read_aliased(NUMERIC, ("番号", "b c"), reply({"field_1": 900, "b_c": 50}))
    assert fitting.field_scores == {"b c": 0.5}
    assert any(note.startswith("番号: score_out_of_range") for note in fitting.notes)


@pytest.mark.parametrize("text", ["", "It looks fine.", "{}", '{"other": 3}', '{"field_1": []}'])
def test_no_answer_is_not_an_answer_under_any_name(text: str) -> None:
    with pytest.raises(RecordError):
        read_aliased(NUMERIC, ("番号", "a"), text)


@pytest.mark.parametrize("name", ["document_critique", "accuracy_audit"])
def test_other_templates_have_no_keys_to_rename(name: str) -> None:
    """They are read as ever."""
    texts = {
        "document_critique": "<think>x</think><score>70</score>",
        "accuracy_audit": json.dumps(
            {"explanation": "x", "incorrect_fields": ["番号"], "confidence_score": 20}
        ),
    }
    template = TEMPLATES[name]
    assert read_aliased(template, ODD, texts[name]) == read_reply(template, ODD, texts[name])
