"""Evidence: the right place for each kind of value, and nothing for near misses."""

from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from schemas.evidence import NO_EVIDENCE
from schemas.evidence import EvidenceKind as K
from scoring.evidence import Document, leaves

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
        (1250.0, K.NUMBER, "1,250.00"),
        ("EUR 1250.00", K.NUMBER, "1,250.00"),
        ("1250.00 EUR", K.NUMBER, "1,250.00"),
        ("€1.250,00", K.NUMBER, "1,250.00"),
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
        (["Berlin", "acme tools", 1250], K.NUMBER, "1,250.00"),
        ({"city": "Berlin", "extra": None}, K.EXACT, "Berlin"),
        ({"city": {"x": None, "y": []}, "zip": {"a": ["berlin"]}}, K.NORMALISED, "Berlin"),
        ({"city": "Berlin", "paid": True}, K.EXACT, "Berlin"),
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
        None, "", "  ", [], {}, [None, ""], {"a": {"b": []}}, True, False, [True], "Hamburg", "lin",
        "117-2012", "2012-118", 1251, "1.251,00", "1520.00", "1251.00 EUR", Decimal("237.51"),
        "2025-03-04", "2024-03-03", "31 March 2025", "Linden 8", "17", 201, "RX1", 48750,
        ["Berlin", "Hamburg"], {"a": {"b": "Hamburg"}}, {"a": "Berlin", "b": 7.5},
        float("nan"), float("inf"), Decimal("sNaN"), [10**5000], Decimal("1E+999999999"), object(),
    ],
)  # fmt: skip
def test_unsupported_values(value: Any) -> None:
    """Empty, absent, near numbers, near dates, parts of words and of numbers, and no JSON."""
    assert Document(TEXT).find(value) == NO_EVIDENCE


@pytest.mark.parametrize(
    ("text", "value", "start"),
    [
        ("2012, 212 and 12", "12", 14),
        ("RX12 and 12", 12, 9),
        ("RX12", 12, 2),
        ("-40 and 40", 40, 8),
        ("12.5 or 12", 12, 8),
        ("PET55, Pet", "pet", 7),
        ("catalogue cat", "cat", 10),
        ("cat_a cat", "cat", 6),
        ("p<.05, n=5.", 5, 9),
        ("No.5", 5, 3),
        ("12,13,14", 13, 3),
        ("1.250 and 1250", 1250, 10),
        ("1.250 and 1,250.00", 1250, 0),
        ("03/04/2025, 3 April 2025", "2025-04-03", 12),
        ("13/04/2025, 4/13/2025", "April 13, 2025", 0),
        ("👨‍👩‍👧 then 👨", "👨", 11),
    ],
)
def test_the_best_place_is_chosen(text: str, value: Any, start: int) -> None:
    """Apart from other words and figures, if there is such a place; else the first one."""
    assert Document(text).find(value).start == start


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1,250", 1250), ("1,250", Decimal("1.25")), ("1.250", 1250), ("1.250", Decimal("1.25")),
        ("1 250,50", Decimal("1250.5")), ("1\u202f250.50", Decimal("1250.5")),
        ("1'250.50", Decimal("1250.5")), ("1’250.50", Decimal("1250.5")),
        ("1,00,000.50", Decimal("100000.5")), ("12,34,567", 1234567), ("1.234.567", 1234567),
        ("EUR1250", 1250), ("US$ 1250", 1250), ("Rs.500", 500), ("500kr", 500), ("₹ 5", 5),
        ("-$40", -40), ("$-40", -40), ("−40", -40), ("(40.00)", -40), ("(40.00)", 40),
        ("19 %", Decimal("0.19")), ("19%", 19), ("1.5e-3", Decimal("0.0015")), ("2E6", 2000000),
        (".05", Decimal("0.05")), ("0.250", Decimal("0.25")), ("007", 7), ("１２３", 123),
        ("12kg", 12), ("100.0", 1e2), ("0.00001", 1e-05), ("40.", 40), ("40,-", 40), ("0102,76,4.80", 76), ("0102,76,4.80", Decimal("4.8")), ("340,0.03", Decimal("0.03")), ("02", 2), ("Qty:02.", 2), ("02.50", Decimal("2.5")),
    ],
)  # fmt: skip
def test_numbers_in_every_notation(written: str, value: Any) -> None:
    """Grouping, decimal marks, currencies, signs, percentages and powers of ten."""
    for text in (f"about {written} in all", f"({written})", written):
        evidence = Document(text).find(value)
        assert evidence.kind in {K.EXACT, K.NUMBER}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.50", 1250), ("1250.5", 12505), ("0.250", 250), ("1,25", 125), ("1,2345", 12345),
        ("1,2,345", 12345), ("p<.05", 5), ("40", -40), ("10-20", -20), ("19", Decimal("0.19")),
        ("X4.7.1", Decimal("4.7")), ("2025-12-05", 5), ("05.12.2025", 5), ("05.12.2025", 12), ("at 10:05", 5), ("76,4.80,x", 80), ("192.168.1.1", Decimal("192.168")),
        ("5000", 500), ("2500", 500), ("12.50 EUR", "1,250 EUR"), ("3-5 mg", "3.5 mg"),
        ("5 mg daily", "-5 mg daily"), ("p < 0.05 here", "p > 0.05 here"), ("5 mg", "<5 mg"),
        ("Flight AB123", "Flight AB124"), ("Order X12A now", "Order X12B now"),
        ("Room 12, floor 3", "Room 12, floor 4"), ("blood O+", "O-"), ("C", "C++"), ("grade A", "A+"), ("no PET55 left", "pet"), ("no PETER55 left", "Peters"),
    ],
)  # fmt: skip
def test_a_near_number_is_no_evidence(text: str, value: Any) -> None:
    """Another value, sign, comparison, code or grade, though it looks alike."""
    assert Document(f"{text}").find(value) == NO_EVIDENCE


@pytest.mark.parametrize(
    "written",
    [
        "2025-03-09", "2025/03/09", "2025.3.9", "20250309", "9.3.2025", "9. 3. 2025", "09/03/2025",
        "03/09/2025", "09-03-25", "9 March 2025", "9 Mar 2025", "9th of March, 2025", "9-Mar-25",
        "09MAR2025", "March 9, 2025", "March 9th 2025", "Mar. 9, 2025", "2025-Mar-09",
        "Sunday, 9 March 2025", "2025年3月9日", "2025-03-09T00:00:00", "2025-03-09T00:00:00.000Z",
        "9 March\n2025", "9 Mar '25",
    ],
)  # fmt: skip
def test_dates_in_every_notation(written: str) -> None:
    """As the value and as the document's text; an ambiguous order is read both ways."""
    for text, value in ((written, "2025-03-09"), ("on 2025-03-09.", written)):
        evidence = Document(f"due {text}; ").find(value)
        assert evidence.kind in {K.EXACT, K.DATE, K.NORMALISED}, (text, value)
    if "2025-03-09" not in written:
        assert Document(f"due {written}; ").find("2025-03-10") == NO_EVIDENCE


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("3 March 2025, 14:30", "2025-03-03T14:30:00", K.DATE),
        ("Time 2:30 pm\nDate 3/3/25", "2025-03-03 14:30", K.DATE),
        ("3 March 2025 at 14:30:15", "2025-03-03T14:30:15+01:00", K.DATE),
        ("3 March 2025, 14:30", "2025-03-03T14:31:00", K.NONE),
        ("3 March 2025", "2025-03-03T14:30:00Z", K.NONE),
        ("2025-03-03T10:00:00Z", "3 March 2025", K.DATE),
        ("31/02/2025", "2025-02-28", K.NONE),
        ("3 March 1975", "3/3/75", K.DATE),
        ("Monday, 3 May 2025", "Monday, 3 March 2025", K.NONE),
        ("from May to June 2025", "from May to July 2025", K.NONE),
        ("version 1.2.20251", "2020-02-01", K.NONE),
    ],
)
def test_times_of_day_and_near_dates(text: str, value: str, kind: K) -> None:
    """A time of day must stand in the document, too; midnight is none; no date is matched nearly."""
    assert Document(text).find(value).kind is kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("total:40.00", "40.00"),
        ("住所:東京都港区", "東京都"),
        ("📄 Größe 5", "Größe"),
        ("مجموع ١٢٣ ريال", "ريال"),
        ("مجموع ١٢٣ ريال", 123),
        ("ﬁnance oﬃce", "finance office"),
        ("STRASSE 5", "straße 5"),
        ("straße 5", "STRASSE 5"),
        ("O’Brien—Smith", "o'brien - smith"),
        ("tab\tseparated\r\nlines", "tab separated lines"),
        ("12 kg, 5 m²", "5 m2"),
        ("12kg", "12 KG"),
        ("030-123-456", "030 123 456"),
        ("lone \ud800 half", "LONE \ud800 HALF"),
        ("हिन्दी  में", "हिन्दी में"),
        ("ACME株式会社", "acme株式会社"),
        ("Acme株式会社", "acMe株"),
    ],
)
def test_scripts_and_forms(text: str, value: Any) -> None:
    """Every script is found, whatever the Unicode form, quotes, dashes and line ends."""
    evidence = Document(f"before {text} after").find(value)
    assert evidence.kind in {K.EXACT, K.NORMALISED, K.NUMBER}
    assert evidence.text is not None
    assert evidence.text in text


@pytest.mark.parametrize(
    ("text", "value"), [("की", "कि"), ("ש\u05b8ל", "ש\u05b4ל"), ("cafe\u0301", "cafe")]
)
def test_marks_belong_to_their_letters(text: str, value: str) -> None:
    """Another vowel sign or accent is another word."""
    assert Document(f"a {text} b").find(value) == NO_EVIDENCE


LONG = "the quick brown fox jumps over the lazy dog while nobody looks "
LONGER = "".join(f"{a}{b}{c} " for a, b, c in product("abcdefgh", repeat=3))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("İ, Unter den Linden", "UNTER den lindem"),
        ("Acme Tols Limited, Leeds", "Acme Tools Limited"),
        ("the quick brown fox jumps over the lazy dog", "The quack brown fox jumps over the lazy dog"),
        ("x " * 400 + LONG * 3, "The quick brown cat " + LONG[20:] + LONG + LONG[:-7]),
        ("x " * 400 + LONGER + "y " * 400, LONGER[:900] + "a b c" + LONGER[900:]),
        ("1,250 EUR per annum", "1250 EUR per anum"),
    ],
)  # fmt: skip
def test_nearly_the_same_text(text: str, value: str) -> None:
    """A slip of the pen, whatever the length; the matched text is made of whole words."""
    evidence = Document(text).find(value)
    assert evidence.kind is K.FUZZY
    assert 0.85 <= evidence.similarity < 1
    assert evidence.text is not None
    assert abs(len(evidence.text) - len(value.strip())) <= 0.2 * len(value)
    assert f" {evidence.text} ".replace(",", " ") in f" {text} ".replace(",", " ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Lind", "Linb"),
        ("Unter den Linden", "Über den Wolken"),
        (LONG * 10, "completely other words that nobody ever wrote, in a row as long as this " * 3),
        (LONGER, LONGER[:900] + "other words " * 300 + LONGER[900:]),
        (LONGER, LONGER[:1200] + "other words " * 300),
        (f"{LONG * 3} 12 {LONG * 3}", f"{LONG * 3} 13 {LONG * 3}"),
        ("", "something"),
    ],
)
def test_what_is_not_near_enough(text: str, value: str) -> None:
    """Short strings, other words, and long texts that differ in a number."""
    assert Document(text).find(value) == NO_EVIDENCE


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("40.", 40),
        ("+40", 40),
        ("$40", 40),
        ("40 %", Decimal("0.4")),
        ("(40)", -40),
        ("Rs. 40", 40),
    ],
)
def test_a_value_in_another_notation(written: str, value: Any) -> None:
    """Written with marks in the output, and without in the document."""
    assert Document(f"is {value} now").find(written).kind is K.NUMBER


def test_lists_nested_beyond_recursion_are_searched() -> None:
    """Depth is no error."""
    value: list[Any] = ["Berlin"]
    for _ in range(20_000):
        value = [value]
    assert Document(TEXT).find(value).text == "Berlin"


def test_the_leaves_of_a_value_come_in_order() -> None:
    """Null and blank leaves are left out; zero and false are values."""
    value = {"a": [1, {"b": None, "c": " "}, ""], "d": False, "e": {"f": ["x", 0]}}
    assert list(leaves(value)) == [1, False, "x", 0]
    assert list(leaves("x")) == ["x"]
    assert list(leaves(None)) == []
