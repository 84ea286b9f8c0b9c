"""Unseen characters and lookalike letters: what a text reads like, and what it hides."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.invisible import (
    fold,
    hidden_text,
    lookalikes,
    origins,
    printable,
    reordered_text,
    without_hidden,
)
from tests.scoring.injection_texts import HARMLESS, bits, bold, selectors, tags, wide


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Plain TEXT\n2", "plain text\n2"),
        ("Überprüfung, Łódź, ñandú", "uberprufung, lodz, nandu"),
        ("e\u0301te\u0301", "ete"),
        (wide("Score: <100>"), "score: <100>"),
        (bold("Ignore"), "ignore"),
        ("\u24d8\u24d6\U0001f17d\U0001f1f4", "igno"),
        ("\u0456gn\u043er\u0435 \u0391\u0392", "ignore ab"),
        ("i\u00adg\u200bn\u200do\u2060r\ufe0fe\u034f", "ignore"),
        ("a\u2028b\u00a0c", "a\nb c"),
        ("\u3008x\u3009 \uff5c", "<x> |"),
        ("\ufb01ve \u2460", "five 1"),
        ("漢字 かな 한글", "漢字 かな 한글"),
    ],
)
def test_a_text_as_it_reads(text: str, read: str) -> None:
    """Lower case, plain letters, nothing unseen; other scripts stay."""
    assert fold(text) == read


@given(st.text())
def test_folding_a_text_is_folding_its_characters(text: str) -> None:
    """However many kinds of characters it has; and each character of the result has an origin."""
    assert fold(text) == "".join(map(fold, text)) or "Σ" in text
    assert len(origins(text)) == len("".join(map(fold, text)))


@given(st.text())
def test_what_is_folded_stays(text: str) -> None:
    """No plain form is itself a lookalike of another."""
    assert fold(fold(text)) == fold(text)


def test_lookalikes_are_what_folds_to_a_letter() -> None:
    """In both cases."""
    assert {"u", "U", "ü", "\uff35", "\u057d", "\U0001d42e"} <= set(lookalikes("u"))
    assert all(fold(c) == "d" for c in lookalikes("d"))


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("a" + tags("pay me") + "b", ["pay me"]),
        ("a" + tags("x") + "b" + tags("y"), ["x", "y"]),
        ("\U0001f3f4" + tags("more than a flag"), ["more than a flag"]),
        ("a" + selectors("héllo \n") + "b", ["héllo \n"]),
        ("a" + bits("yes"), ["24 zero-width characters"]),
        ("a" + bits("no"), ["16 zero-width characters"]),
        ("a" + bits("y"), []),
        *[(text, []) for text in HARMLESS.tuned],
    ],
)
def test_hidden_text_is_found_and_read(text: str, hidden: list[str]) -> None:
    """As far as it can be; flags, emoji, joiners and padding hide nothing."""
    assert [found.text for found in hidden_text(text)] == hidden
    marked = without_hidden(text)
    assert marked.count("\ufffd") == len(hidden)
    assert (marked == text) == (not hidden)


@given(st.text(st.sampled_from("ab \u200b\u200c\u200d\ufe0f\U000e0041\U000e007f\U0001f3f4")))
def test_nothing_visible_is_taken_away(text: str) -> None:
    """And nothing hidden is left."""
    seen = without_hidden(text)
    assert list(hidden_text(seen)) == []
    assert [c for c in seen if c in "ab "] == [c for c in text if c in "ab "]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x \u202eabc", 2),
        ("\u202e12 abc\u202c", 0),
        ("\u202dשלום\u202c", 0),
        ("\u202d+49 30 1234\u202c", None),
        ("\u202bשלום\u202c \u202aabc\u202c", None),
        ("\u202e\u202c abc", None),
        ("abc", None),
    ],
)
def test_forced_directions(text: str, place: int | None) -> None:
    """Letters forced to run backwards are found; numbers kept in order, and plain marks, are not."""
    match = reordered_text(text)
    assert (match.start() if match else None) == place


@given(st.text(), st.integers(1, 50))
def test_printable_text(text: str, length: int) -> None:
    """At most so long, on one line, all of it seen."""
    shown = printable(text, length)
    assert len(shown) <= length
    assert shown.isprintable()
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"} for c in shown)
