"""Evidence, for any text and any value: no errors, and offsets that are right."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.evidence import NO_EVIDENCE
from schemas.evidence import EvidenceKind as K
from scoring.evidence import Document
from scoring.evidence_text import lowered

ANY_TEXT = st.text(alphabet=st.characters(codec=None), max_size=200)
AWKWARD = st.text(
    alphabet=st.sampled_from([*"abß İıſK12.,-−%$( )/:eE\n'", "ﬁ", "\u0301", "🙂", "\ud800", "\u200d", "ﷺ", "²", "א", "年"]),
    max_size=60,
)  # fmt: skip
TEXT = ANY_TEXT | AWKWARD
NUMBERS = st.integers() | st.floats() | st.decimals()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def check(text: str, value: Any) -> None:
    evidence = Document(text).find(value)
    if evidence.kind is K.NONE:
        assert evidence == NO_EVIDENCE
        return
    assert evidence.start is not None
    assert evidence.end is not None
    assert 0 <= evidence.start < evidence.end <= len(text)
    assert text[evidence.start : evidence.end] == evidence.text
    assert (evidence.similarity == 1.0) is (evidence.kind is not K.FUZZY)


@given(text=TEXT, value=VALUES)
@example(text="1" * 5000, value=int("9" * 4000))
@example(text="\u0301", value="\u0301")
def test_matched_text_is_the_slice(text: str, value: Any) -> None:
    """For any text and any JSON value, NaN, Infinity and lone surrogates included."""
    check(text, value)


@given(text=TEXT, data=st.data())
def test_a_part_of_the_text_is_never_misplaced(text: str, data: st.DataObject) -> None:
    """Parts of the text, as they are and folded, give no error and right offsets."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for wanted in (text[start:end], text[start:end].casefold(), text[start:end].upper()):
        check(text, wanted)


@given(
    words=st.lists(
        st.text(st.characters(categories=["L", "Mn", "So"]), min_size=1, max_size=8), min_size=1
    ),
    data=st.data(),
)
def test_a_word_of_the_text_is_found(words: list[str], data: st.DataObject) -> None:
    """Any word of a text written with blanks is evidence for itself."""
    text = " ".join(f"a{word}" for word in words)
    wanted = data.draw(st.sampled_from(words))
    assert Document(text).find(f"a{wanted}").kind is K.EXACT


@given(number=st.integers(-(10**12), 10**12), digits=st.integers(0, 4))
@pytest.mark.parametrize(
    ("group", "mark"), [(",", "."), (".", ","), (" ", ","), ("’", "."), ("", ".")]
)
def test_a_number_is_found_in_every_notation(
    number: int, digits: int, group: str, mark: str
) -> None:
    """What is written with any separators is found by value, but not by value plus one."""
    value = number / 10**digits
    written = f"{value:,.{digits}f}".replace(",", "_").replace(".", mark).replace("_", group)
    document = Document(f"it is {written} now")
    assert document.find(value).kind in {K.EXACT, K.NUMBER}
    assert document.find(written).kind is K.EXACT


@given(day=st.dates())
@pytest.mark.parametrize(
    "form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d %B %Y", "%b %d, %Y", "%Y%m%d"]
)
def test_a_date_is_found_in_every_notation(day: Any, form: str) -> None:
    """Years of four digits, as ISO dates have them."""
    if day.year < 1900 or day.year > 2099:
        day = day.replace(year=2000)
    document = Document(f"signed on {day.strftime(form)} in Leeds")
    assert document.find(day.isoformat()).kind is K.DATE


@given(text=TEXT)
def test_lower_case_keeps_every_offset(text: str) -> None:
    """Also of the one letter whose lower case is two."""
    assert len(lowered(text)) == len(text)


def test_lower_case_keeps_the_length_of_every_letter() -> None:
    """So that offsets found in lower case are those of the text."""
    for start in range(0, 0x110000, 0x1000):
        assert len(lowered("".join(map(chr, range(start, start + 0x1000))))) == 0x1000
