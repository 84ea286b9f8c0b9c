"""Field names as models spell them: exactly, then loosely, then by path, but never by guess."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.names import FieldNames

VT = ("vendor_name", "total")
ADDRESS = ("address.city", "address.zip", "items[0].price", "items[1].price")


@pytest.mark.parametrize(
    ("fields", "name", "field"),
    [
        (VT, "total", "total"),
        (VT, "TOTAL", "total"),
        (VT, " Total ", "total"),
        (VT, "Vendor Name", "vendor_name"),
        (VT, "vendor-name", "vendor_name"),
        (VT, "vendorName", "vendor_name"),
        (VT, "vendor", None),
        (VT, "", None),
        (("Prénom",), "Pre\u0301nom", "Prénom"),
        (("Pre\u0301nom",), "prénom", "Pre\u0301nom"),
        (("straße",), "STRASSE", "straße"),
        (("日期", "日 期"), "日期", "日期"),
        (("ID", "id"), "ID", "ID"),
        (("ID", "id"), "id", "id"),
        (("ID", "id"), "Id", None),
        (("a b", "a_b"), "a-b", None),
        (("a b", "a_b"), "a_b", "a_b"),
        (("a b", "x"), "a-b", "a b"),
        (("", "x"), "", ""),
        (("2fa", "from", "a/b"), "a/b", "a/b"),
    ],
)
def test_a_name_means_one_field(fields: tuple[str, ...], name: str, field: str | None) -> None:
    """A loose match counts only when it points at exactly one field."""
    assert FieldNames(fields).match(name) == field


@pytest.mark.parametrize(
    ("fields", "name", "field"),
    [
        (VT, "total", "total"),
        (VT, "total.net", "total"),
        (VT, "Total[0].net", "total"),
        (VT, "$.total", "total"),
        (VT, "vendor_name/first", "vendor_name"),
        (VT, "grand total", None),
        (VT, "tot", None),
        (VT, "$", None),
        (VT, "", None),
        (ADDRESS, "city", "address.city"),
        (ADDRESS, "Address.City.name", "address.city"),
        (ADDRESS, "address", None),
        (ADDRESS, "price", None),
        (ADDRESS, "items[0].price", "items[0].price"),
        (("a", "a.b"), "a.b.c", None),
        (("$",), "[0].price", "$"),
        (("$",), "anything", "$"),
        (("$", "a"), "b", None),
    ],
)
def test_a_path_means_the_field_that_contains_it(
    fields: tuple[str, ...], name: str, field: str | None
) -> None:
    """Or that it ends in, where the fields are paths; the whole output contains every path."""
    assert FieldNames(fields).match_path(name) == field


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SPELLINGS = (str, str.upper, str.title, lambda t: f" {t} ", lambda t: unicodedata.normalize("NFD", t))  # fmt: skip


@given(fields=st.lists(TEXT, min_size=1, max_size=5, unique=True), data=st.data())
def test_every_field_is_found_by_its_own_name(fields: list[str], data: st.DataObject) -> None:
    """Whatever the others are called; any other spelling finds that field, or none."""
    names = FieldNames(fields)
    field = data.draw(st.sampled_from(fields))
    assert names.match(field) == names.match_path(field) == field
    spelled = data.draw(st.sampled_from(SPELLINGS))(field)
    if spelled not in fields:
        alike = [f for f in fields if names.match(f.upper()) == f]
        assert names.match(spelled) in {field, None, *alike}


@given(fields=st.lists(TEXT, max_size=5, unique=True), name=TEXT)
def test_what_is_found_is_a_field(fields: list[str], name: str) -> None:
    """Never anything that was not asked about."""
    for found in (FieldNames(fields).match(name), FieldNames(fields).match_path(name)):
        assert found is None or found in fields
