"""The example corpus is what its README says."""

import csv
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_corpus", EXAMPLES / "make_corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_corpus = _load_script()
RECORDS: list[dict[str, Any]] = make_corpus.read_corpus(EXAMPLES / "corpus")
TABLES = [record for record in RECORDS if record["family"] == "table_analysis"]
MAY_BREAK_SCHEMA = frozenset({"wrong_date_format"})
MISSING = frozenset({"", "n/a", "-", "?", "—"})
DATE_FORMS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%d-%b-%y",
)

Json = Any


def _ids(record: dict[str, Any]) -> str:
    return str(record["id"])


def _planted(kind: str) -> list[tuple[str, dict[str, Any], list[str]]]:
    """(id, record, fields) for each record that holds a mistake of this kind."""
    found = []
    for record in RECORDS:
        fields = [mistake["field"] for mistake in record["planted"] if mistake["kind"] == kind]
        if fields:
            found.append((record["id"], record, fields))
    return found


def _leaves(value: Json) -> Iterator[str | int | float | bool | None]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _changes(record: dict[str, Any], field: str) -> tuple[list[Json], list[Json]]:
    """What the truth of a field has and the output lacks; what the output has instead."""
    texts = [
        Counter(json.dumps(leaf, ensure_ascii=False) for leaf in _leaves(record[side][field]))
        for side in ("ground_truth", "output")
    ]
    lost, gained = texts[0] - texts[1], texts[1] - texts[0]
    return [json.loads(t) for t in lost.elements()], [json.loads(t) for t in gained.elements()]


def _is_in(document: str, value: Json) -> bool:
    """A text literally, a number whatever its separators; white space and case do not count."""
    if isinstance(value, str):
        return "".join(value.split()).casefold() in "".join(document.split()).casefold()
    numbers = re.findall(r"\d(?:[\d.,' ]*\d)?", document)
    wanted = re.sub(r"\D", "", str(value))
    return any(re.sub(r"\D", "", re.sub(r"[.,]0+$", "", number)) == wanted for number in numbers)


def test_parquet_agrees_with_the_jsonl() -> None:
    """The committed Parquet file holds the rows of the JSONL files, in their order."""
    assert pq.read_table(EXAMPLES / "corpus.parquet").equals(make_corpus.to_table(RECORDS))


def test_the_script_is_deterministic(tmp_path: Path) -> None:
    """Two runs write the same bytes."""
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    written = [make_corpus.write_corpus(EXAMPLES / "corpus", path) for path in paths]
    assert written == [len(RECORDS)] * 2
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_size_and_spread() -> None:
    """Enough records in each family and of each kind; about half of the records are right."""
    families = Counter(record["family"] for record in RECORDS)
    kinds = Counter(mistake["kind"] for record in RECORDS for mistake in record["planted"])
    assert len(RECORDS) >= 96
    assert set(families) == set(make_corpus.FAMILIES)
    assert min(families.values()) >= 24
    assert set(kinds) == make_corpus.KINDS
    assert min(kinds.values()) >= 6
    assert 0.4 <= sum(bool(record["planted"]) for record in RECORDS) / len(RECORDS) <= 0.5


@pytest.mark.parametrize("record", RECORDS, ids=_ids)
def test_outputs_are_wrong_exactly_where_marked(record: dict[str, Any]) -> None:
    """An output has the keys of the truth and differs from it in the planted fields alone."""
    output, truth = record["output"], record["ground_truth"]
    assert list(output) == list(truth) == list(record["json_schema"]["properties"])
    differing = [key for key in truth if json.dumps(output[key]) != json.dumps(truth[key])]
    assert differing == [mistake["field"] for mistake in record["planted"]]


@pytest.mark.parametrize("record", RECORDS, ids=_ids)
def test_truth_fits_the_schema(record: dict[str, Any]) -> None:
    """So does the output, but for mistakes of the kinds in MAY_BREAK_SCHEMA."""
    checker = Draft202012Validator.FORMAT_CHECKER
    validator = Draft202012Validator(record["json_schema"], format_checker=checker)
    validator.check_schema(record["json_schema"])
    validator.validate(record["ground_truth"])
    broken = {error.absolute_path[0] for error in validator.iter_errors(record["output"])}
    kinds = {mistake["field"]: mistake["kind"] for mistake in record["planted"]}
    assert {kinds[field] for field in broken} <= MAY_BREAK_SCHEMA


@pytest.mark.parametrize(("name", "record", "fields"), _planted("swapped_fields"))
def test_swapped_fields(name: str, record: dict[str, Any], fields: list[str]) -> None:
    """What one of two fields lost is what the other one gained."""
    (first_lost, first_gained), (second_lost, second_gained) = (
        _changes(record, field) for field in fields
    )
    assert first_lost == second_gained
    assert second_lost == first_gained


@pytest.mark.parametrize(("name", "record", "fields"), _planted("wrong_span"))
def test_wrong_spans_are_in_the_document(
    name: str, record: dict[str, Any], fields: list[str]
) -> None:
    """A wrong span is a piece of the document, only not the right one."""
    gained = [value for field in fields for value in _changes(record, field)[1]]
    assert gained
    assert all(_is_in(record["document"], value) for value in gained)


@pytest.mark.parametrize(("name", "record", "fields"), _planted("invented_value"))
def test_invented_values_are_not_in_the_document(
    name: str, record: dict[str, Any], fields: list[str]
) -> None:
    """Nothing in the document reads like an invented value."""
    gained = [value for field in fields for value in _changes(record, field)[1]]
    assert gained
    assert not any(_is_in(record["document"], value) for value in gained)


@pytest.mark.parametrize(("name", "record", "fields"), _planted("overlooked_value"))
def test_overlooked_values_are_only_left_out(
    name: str, record: dict[str, Any], fields: list[str]
) -> None:
    """An overlooked value is null or missing from a list; nothing stands in its place."""
    for field in fields:
        lost, gained = _changes(record, field)
        assert [value for value in lost if value is not None]
        assert set(gained) <= {None}


@pytest.mark.parametrize(("name", "record", "fields"), _planted("wrong_date_format"))
def test_wrong_date_formats_name_the_right_day(
    name: str, record: dict[str, Any], fields: list[str]
) -> None:
    """Another form of the same day, in records whose instructions or schema set the form."""
    asked = record["instructions"] + json.dumps(record["json_schema"])
    assert re.search(r"YYYY-MM-DD|DD\.MM\.YYYY|MM/DD/YYYY", asked)
    for field in fields:
        lost, gained = _changes(record, field)
        assert len(lost) == len(gained)
        for right, wrong in zip(lost, gained, strict=True):
            days = _days(right)
            year_added = [f"{wrong} {day.year}" for day in days]
            assert wrong != right
            assert {day for text in (wrong, *year_added) for day in _days(text)} & set(days)


@pytest.mark.parametrize(("name", "record", "fields"), _planted("off_amount"))
def test_off_amounts_are_near(name: str, record: dict[str, Any], fields: list[str]) -> None:
    """One figure for another: half of its digits or more stay, in number or in a text."""
    for field in fields:
        (right,), (wrong,) = _changes(record, field)
        assert type(right) is type(wrong) or {type(right), type(wrong)} == {int, float}
        digits = [Counter(re.sub(r"\D", "", str(value))) for value in (right, wrong)]
        assert 2 * (digits[0] & digits[1]).total() >= digits[0].total()


def _days(text: str) -> list[date]:
    """Every day that the text can mean."""
    found = []
    for form in DATE_FORMS:
        try:
            found.append(datetime.strptime(text.replace("Sept", "Sep"), form).date())
        except ValueError:
            continue
    return found


class Table:
    """The table of a document, read from its text: `header`, `rows`, and figures per column."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.header, self.rows = _read_table(record["document"])
        self.decimal_comma = "comma is the decimal sign" in record["instructions"]

    def cells(self, slug: str) -> list[tuple[str, str]]:
        """(first cell of the row, cell) for the cells of a column that are not missing."""
        names = [re.sub(r"\W+", "_", name.casefold()).strip("_") for name in self.header]
        column = names.index(slug)
        return [(row[0], row[column]) for row in self.rows if row[column] not in MISSING]

    def figures(self, slug: str) -> dict[str, Decimal]:
        """First cell of the row to number. First cells are unique where this is asked."""
        return {label: self._number(cell) for label, cell in self.cells(slug)}

    def dates(self, slug: str) -> list[date]:
        return [_days(cell)[0] for _, cell in self.cells(slug)]

    def _number(self, cell: str) -> Decimal:
        text = re.sub(r"[^\d.,-]", "", cell)
        if self.decimal_comma:
            return Decimal(text.replace(".", "").replace(",", "."))
        return Decimal(text.replace(",", ""))


def _read_table(document: str) -> tuple[list[str], list[list[str]]]:
    """Markdown when a line starts with a bar, otherwise the last paragraph as CSV."""
    bars = [line.strip().strip("|") for line in document.splitlines() if line.startswith("|")]
    if bars:
        lines = [[cell.strip() for cell in line.split("|")] for line in bars]
        return lines[0], lines[2:]
    body = document.rsplit("\n\n", maxsplit=1)[-1].splitlines()
    delimiter = ";" if ";" in body[0] else ","
    lines = [[cell.strip() for cell in row] for row in csv.reader(body, delimiter=delimiter)]
    return lines[0], lines[1:]


def _mean(numbers: list[Decimal]) -> Decimal:
    return (sum(numbers, Decimal(0)) / len(numbers)).quantize(Decimal("0.01"), ROUND_HALF_UP)


def _label(table: Table, slug: str, pick: Callable[..., Any]) -> str:
    figures = table.figures(slug)
    return str(pick(figures, key=lambda label: figures[label]))


WHOLE: dict[str, Callable[[Table], Any]] = {
    "row_count": lambda t: len(t.rows),
    "column_count": lambda t: len(t.header),
    "missing_cells": lambda t: sum(cell in MISSING for row in t.rows for cell in row),
    "columns_with_missing": lambda t: [
        name for i, name in enumerate(t.header) if any(row[i] in MISSING for row in t.rows)
    ],
}
OF_COLUMN: dict[str, Callable[[Table, str], Any]] = {
    "label_of_max_": lambda t, c: _label(t, c, max),
    "label_of_min_": lambda t, c: _label(t, c, min),
    "max_": lambda t, c: max(t.figures(c).values()),
    "min_": lambda t, c: min(t.figures(c).values()),
    "sum_": lambda t, c: sum(t.figures(c).values()),
    "mean_": lambda t, c: _mean(list(t.figures(c).values())),
    "earliest_": lambda t, c: min(t.dates(c)).isoformat(),
    "latest_": lambda t, c: max(t.dates(c)).isoformat(),
    "distinct_": lambda t, c: len({cell for _, cell in t.cells(c)}),
    "most_common_": lambda t, c: Counter(cell for _, cell in t.cells(c)).most_common(1)[0][0],
}


def _answer(table: Table, field: str) -> Json:
    if field in WHOLE:
        return WHOLE[field](table)
    prefix = next(prefix for prefix in OF_COLUMN if field.startswith(prefix))
    answer = OF_COLUMN[prefix](table, field.removeprefix(prefix))
    return float(answer) if isinstance(answer, Decimal) else answer


@pytest.mark.parametrize("record", TABLES, ids=_ids)
def test_table_answers_follow_from_the_table(record: dict[str, Any]) -> None:
    """Each answer but the types of columns is worked out again from the text."""
    table = Table(record)
    assert 6 <= len(table.rows) <= 15
    assert {len(row) for row in table.rows} == {len(table.header)}
    truth = {k: v for k, v in record["ground_truth"].items() if k != "column_types"}
    assert {field: _answer(table, field) for field in truth} == truth


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "keys are"),
        ({"output": "{}"}, "wrong type"),
        ({"output": {"a": 2}}, "planted in"),
        ({"output": {"a": 1, "b": 1}}, "planted in"),
        ({"output": {"a": True}}, "planted in"),
        ({"planted": [{"field": "a", "kind": "off_amount"}]}, "planted in"),
        ({"planted": [{"field": "a", "kind": "typo"}]}, "unknown kinds"),
    ],
)
def test_broken_records_are_refused(change: dict[str, Any], message: str) -> None:
    """Each rule for records has a message of its own, which names the record."""
    sound: dict[str, Any] = dict.fromkeys(make_corpus.TEXT_KEYS, "x")
    sound |= {"planted": [], "json_schema": {}, "output": {"a": 1}, "ground_truth": {"a": 1}}
    make_corpus.check_record(sound)
    with pytest.raises(make_corpus.CorpusError, match=f"^x: {message}"):
        make_corpus.check_record(sound | change)


def test_repeated_ids_are_refused(tmp_path: Path) -> None:
    """An id that occurs twice, be it in one file, stops the script."""
    for family in make_corpus.FAMILIES:
        lines = (EXAMPLES / "corpus" / f"{family}.jsonl").read_text("utf-8")
        (tmp_path / f"{family}.jsonl").write_text(lines + lines.split("\n")[0], "utf-8")
    with pytest.raises(make_corpus.CorpusError, match="not unique"):
        make_corpus.read_corpus(tmp_path)
