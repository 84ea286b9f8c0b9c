"""Template files: replacing, extending and disabling; errors that name the file and key."""

from pathlib import Path

import pytest

from schemas.errors import UsageError
from schemas.verdict import ReplyKind
from scoring.prompt import question
from scoring.reply import read_reply
from scoring.templates import builtin_templates, load_templates

EXTRA = "name: extra\nreply: field_scores\nscale: 10\ntext: Is it so?\n"


def test_the_five_of_the_method() -> None:
    """Names, forms and scales as published."""
    found = {t.name: (t.reply, t.scale, t.score_key) for t in builtin_templates().templates}
    likert = {
        "Certain": 1.0,
        "Mostly Certain": 0.75,
        "Somewhat Certain": 0.5,
        "Uncertain": 0.25,
        "Likely Incorrect": 0.0,
    }
    assert found == {
        "accuracy_audit": (ReplyKind.INCORRECT_FIELDS, 100, "confidence_score"),
        "confidence_audit": (ReplyKind.INCORRECT_FIELDS, 10, "rating"),
        "document_critique": (ReplyKind.DOCUMENT_SCORE, 100, "score"),
        "fields_likert": (ReplyKind.FIELD_SCORES, likert, "confidence"),
        "fields_numeric": (ReplyKind.FIELD_SCORES, 100, "score"),
    }


def test_a_folder_replaces_extends_and_disables(tmp_path: Path) -> None:
    """By name; the rest stay as they are."""
    (tmp_path / "a.yaml").write_text(EXTRA)
    (tmp_path / "b.yaml").write_text(EXTRA.replace("extra", "fields_numeric"))
    (tmp_path / "c.yaml").write_text("name: accuracy_audit\nenabled: false\n")
    (tmp_path / "notes.txt").write_text("not a template")
    templates = load_templates(tmp_path)
    assert templates.names == (
        "confidence_audit",
        "document_critique",
        "extra",
        "fields_likert",
        "fields_numeric",
    )
    assert templates["fields_numeric"].scale == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "is not YAML"),
        ("- a", "must hold a mapping"),
        (EXTRA.replace("scale: 10", "scale: 0"), "scale"),
        (EXTRA.replace("field_scores", "field_guess"), "reply"),
        (EXTRA.replace("name: extra", "name: Bad Name"), "name"),
        (EXTRA + "colour: red\n", "colour"),
        (EXTRA + "score_key: explanation\n", "score_key cannot be explanation"),
        ("name: x\nreply: document_score\nscale: {Sure: 1}\ntext: t\n", "scale of words needs"),
        ("name: nope\nenabled: false\n", "disables 'nope', which is no template"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    """With the key and what is wrong."""
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"mine\.yaml") as error:
        load_templates(tmp_path)
    assert message in str(error.value)


def test_an_empty_or_missing_folder_is_an_error(tmp_path: Path) -> None:
    """It would silently change nothing."""
    with pytest.raises(UsageError, match="holds no"):
        load_templates(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        load_templates(tmp_path / "none")


def test_taking_every_template_out_is_an_error(tmp_path: Path) -> None:
    """A run without a verifier prompt would score nothing."""
    for name in builtin_templates().names:
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nenabled: false\n")
    with pytest.raises(UsageError, match="no template is left"):
        load_templates(tmp_path)


@pytest.mark.parametrize(
    ("scale", "answer", "signal"),
    [("5", "4", 0.8), ("{Sure: 1.0, Unsure: 0.3}", '"unsure"', 0.3), ("100", "80", 0.8)],
)
def test_a_template_of_ones_own_is_asked_and_read_alike(
    tmp_path: Path, scale: str, answer: str, signal: float
) -> None:
    """Its scale and key are in the question, and a reply of that form gives that signal."""
    text = f"name: extra\nreply: field_scores\nscale: {scale}\nscore_key: grade\ntext: Is it so?\n"
    (tmp_path / "extra.yaml").write_text(text)
    template = load_templates(tmp_path)["extra"]
    asked = question(template)
    assert '"grade"' in asked
    assert ("Sure, Unsure" if "Sure" in scale else f"from 0 to {scale}") in asked
    reading = read_reply(template, ("a",), f'{{"a": {{"explanation": "x", "grade": {answer}}}}}')
    assert reading.field_scores == {"a": signal}
