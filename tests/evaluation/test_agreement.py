"""Which values agree with which gold, rule by rule."""

from decimal import Decimal
from typing import Any

import pytest

from evaluation.agreement import Rule, agree, parse_comparisons
from schemas.errors import UsageError

A = Rule


@pytest.mark.parametrize(
    ("rule", "value", "gold", "same"),
    [
        ("auto", "ACME  Ltd.", "acme ltd", True),
        ("auto", "ACME", "ACME Ltd", False),
        ("auto", None, "", True),
        ("auto", [], None, True),
        ("auto", "x", None, False),
        ("auto", None, "x", False),
        ("auto", 0, None, False),
        ("auto", False, None, False),
        ("auto", True, True, True),
        ("auto", "true", True, False),
        ("auto", 1, True, False),
        ("auto", Decimal("40.0"), 40, True),
        ("auto", "40,00 EUR", 40, True),
        ("auto", "1,234.50", Decimal("1234.5"), True),
        ("auto", "1.234,50 €", Decimal("1234.5"), True),
        ("auto", "12 345", 12345, True),
        ("auto", "4O", 40, False),
        ("auto", ["b", "A"], ["a", "B"], True),
        ("auto", ["a", "a"], ["a", "b"], False),
        ("auto", "a", ["a"], True),
        ("auto", {"x": 1, "y": None}, {"x": 1}, True),
        ("auto", {"x": 1, "y": 2}, {"x": 1}, False),
        ("auto", {"x": [{"z": "A"}]}, {"x": [{"z": "a"}]}, True),
        ("exact", "ACME", "acme", False),
        ("exact", [1, 2], [2, 1], False),
        ("text", "“Hi” – there", '"hi" - there', True),
        ("text", 12, "12", True),
        ("number:1%", 101, 100, True),
        ("number:1%", 102, 100, False),
        ("number:0.5", 149, 100, True),
        ("number", "n/a", "N/A", True),
        ("date", "3 March 2025", "2025-03-03", True),
        ("date", "2025-03-04", "2025-03-03", False),
        ("date", "soon", "Soon", True),
        ("date", 20250303, "2025-03-03", False),
        ("set", ["x"], ["x", "y"], False),
        ("nested", [1, 2], [2, 1], False),
    ],
)  # fmt: skip
def test_values_that_agree(rule: str, value: Any, gold: Any, same: bool) -> None:
    """What is missing or empty says the same as null, and nothing else does."""
    assert parse_comparisons(f"f={rule}").agree("f", value, gold) is same


def test_each_field_has_its_rule() -> None:
    """What has none of its own has the default's."""
    rules = parse_comparisons("total=number:1%, when=date ,default=exact")
    assert rules.agree("total", 100, 101)
    assert rules.agree("when", "1 May 2025", "2025-05-01")
    assert not rules.agree("other", "A", "a")
    assert agree(parse_comparisons(None).default, "A", "a")


@pytest.mark.parametrize("wrong", ["total", "total=nearly", "total=text:1%", "x=number:1.2.3"])
def test_rules_that_are_refused(wrong: str) -> None:
    """With the rules that there are."""
    with pytest.raises(UsageError, match="--compare"):
        parse_comparisons(wrong)
