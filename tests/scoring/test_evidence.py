"""Evidence: the right place for each kind of value, and nothing for near misses."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.evidence import EvidenceKind as K
from scoring.evidence import Document

TEXT = (
    "INVOICE No. 2012-117\nACME  Tools & Söhne GmbH,\nUnter den Linden 7, Berlin\n"
    "Date: 3 March 2025, due 04/05/2025\nNet 1,250.00 EUR, VAT 19%: 237,50\n"
    "Total due: 1.487,50 €  (paid -20)  Ref RX12 / 12 items / 12 500 km"
)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("2012-117", K.EXACT, "2012-117"),
        ("Berlin", K.EXACT, "Berlin"),
        ("12", K.EXACT, "12"),
        ("acme tools & söhne gmbh", K.NORMALISED, "ACME  Tools & Söhne GmbH"),
        ("ACME Tools & Söhne GmbH", K.NORMALISED, "ACME  Tools & Söhne GmbH"),
        ("ACME Tools & So\u0308hne GmbH", K.NORMALISED, "ACME  Tools & Söhne GmbH"),
        ("Söhne GmbH, Unter den Linden 7", K.NORMALISED, "Söhne GmbH,\nUnter den Linden 7"),
        ("1250", K.NUMBER, "1,250.00"),
        (1250, K.NUMBER, "1,250.00"),
        (Decimal("1250.00"), K.NUMBER, "1,250.00"),
        ("EUR 1250.00", K.NUMBER, "1,250.00"),
        (Decimal("237.5"), K.NUMBER, "237,50"),
        ("1487.50", K.NUMBER, "1.487,50"),
        (12500, K.NUMBER, "12 500"),
        (-20, K.EXACT, "-20"),
        (Decimal("0.19"), K.NUMBER, "19"),
        (19, K.EXACT, "19"),
        ("2025-03-03", K.DATE, "3 March 2025"),
        ("March 3, 2025", K.DATE, "3 March 2025"),
        ("03.03.2025", K.DATE, "3 March 2025"),
        ("2025-05-04", K.DATE, "04/05/2025"),
        ("2025-04-05", K.DATE, "04/05/2025"),
        ("Unter den Lindem", K.FUZZY, "Unter den Linden"),
        (["Berlin", "2012-117"], K.EXACT, "Berlin"),
        ({"city": "Berlin", "extra": None}, K.EXACT, "Berlin"),
    ],
)
def test_supported_values(value: Any, kind: K, text: str) -> None:
    """The kind of match, and the very text in the document."""
    evidence = Document(TEXT, 3).find(value)
    assert (evidence.kind, evidence.text, evidence.message_index) == (kind, text, 3)
    assert TEXT[evidence.start : evidence.end] == text


@pytest.mark.parametrize(
    "value",
    [
        None, "", "  ", [], {}, True, False, "Hamburg", "lin", "117-2012", "2012-118",
        1251, "1.251,00", "1520.00", Decimal("237.51"), "2025-03-04", "2024-03-03", "31 March 2025",
        "Linden 8", "17", 201, ["Berlin", "Hamburg"], {"a": {"b": "Hamburg"}}, "RX1", 48750,
    ],
)  # fmt: skip
def test_unsupported_values(value: Any) -> None:
    """Empty, absent, near numbers, near dates, parts of words and of numbers."""
    evidence = Document(TEXT).find(value)
    assert (evidence.kind, evidence.text, evidence.start) == (K.NONE, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("total:40.00", "40.00"),
        ("住所:東京都港区", "東京都"),
        ("📄 Größe 5", "Größe"),
        ("مجموع ١٢٣ ريال", "ريال"),
        ("ﬁnance oﬃce", "finance office"),
        ("STRASSE 5", "straße 5"),
        ("O’Brien—Smith", "o'brien - smith"),
        ("tab\tseparated\r\nlines", "tab separated lines"),
    ],
)
def test_scripts_and_forms(text: str, value: str) -> None:
    """Every script is found, whatever the Unicode form, quotes, dashes and line ends."""
    evidence = Document(f"before {text} after").find(value)
    assert evidence.kind in {K.EXACT, K.NORMALISED}
    assert evidence.text is not None


ANY_TEXT = st.text(alphabet=st.characters(codec=None), max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(text=ANY_TEXT, value=JSON)
def test_matched_text_is_the_slice(text: str, value: Any) -> None:
    """For any text and any value: no error, and offsets that are right."""
    evidence = Document(text).find(value)
    if evidence.kind is not K.NONE:
        assert evidence.start is not None
        assert evidence.end is not None
        assert 0 <= evidence.start < evidence.end <= len(text)
        assert text[evidence.start : evidence.end] == evidence.text


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
    assert Document(text).find(f"a{wanted}").kind in {K.EXACT, K.NORMALISED}
