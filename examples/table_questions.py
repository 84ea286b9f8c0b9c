"""Tables with questions on them, whose answers are computed here from the same rows."""

import random
from collections.abc import Iterator
from typing import Any

INSTRUCTIONS = (
    "Answer from the table: row_count is the number of data rows, columns the column names in "
    "order, highest and mean of the column named after the table (mean to two decimals), "
    "highest_row is the first column of the row with the highest value, empty_cells is the number "
    "of cells without a value, last_update is the date below the table as YYYY-MM-DD."
)
TOPICS = (
    ("Depot", ("Shift", "Pallets", "Forklifts"), "Pallets", 0),
    ("Vineyard", ("Grape", "Hectares", "Barrels"), "Barrels", 0),
    ("Station", ("Line", "Passengers", "Lifts"), "Passengers", 0),
    ("Sensor", ("Site", "Reading", "Battery"), "Reading", 1),
    ("Product", ("Supplier", "Price", "Stock"), "Price", 2),
    ("School", ("District", "Pupils", "Teachers"), "Pupils", 0),
)
"""The key column, the others, the one that is measured, and its decimals."""
NAMES = {
    "Depot": "Ravna Tylo Mossby Kant Oder Vik Lund Sela Brno Arvo",
    "Vineyard": "Montreuil Peyrac Cormeil Lescaut Santolan Verdeau Brizard Aubanel",
    "Station": "Fairmead Quayside Northgate Hollins Tarn Ashdown Elmcross Olddock Beckhill",
    "Sensor": "S-104 S-117 S-121 S-133 S-140 S-152 S-160 S-175 S-188 S-190 S-204",
    "Product": "Hinge-40 Latch-B Screw-M6 Bracket-L Hasp Bolt-12 Handle-Q Rail-90",
    "School": "Birchwood Riverside Kingsley Meadow Fernhill Tallis Olave",
}
WORDS = ("north", "south", "east", "west", "early", "late", "upper", "lower")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September")
RECORDS = 24
Row = list[str]


def table_records(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Records with document, truth and, in every second one, a planted mistake."""
    plant = (_off_mean, _swapped, _wrong_date, _invented_column, _off_count, _wrong_row)
    for number in range(RECORDS):
        record = _record(rng, number)
        if number % 2:
            record["planted"] = plant[number // 2 % len(plant)](rng, record)
        yield record


def _record(rng: random.Random, number: int) -> dict[str, Any]:
    key, others, measure, decimals = TOPICS[number % len(TOPICS)]
    names = NAMES[key].split()
    columns = [key, *others]
    rows = [
        _row(rng, columns, measure, decimals, name)
        for name in rng.sample(names, rng.randint(6, len(names)))
    ]
    year, month, day = rng.randint(2021, 2025), rng.randint(1, len(MONTHS)), rng.randint(1, 28)
    values = [float(row[columns.index(measure)]) for row in rows]
    highest = max(values)
    truth = {
        "row_count": len(rows),
        "columns": columns,
        "highest": _number(highest),
        "mean": round(sum(values) / len(values), 2),
        "highest_row": rows[values.index(highest)][0],
        "empty_cells": sum(cell == "" for row in rows for cell in row),
        "last_update": f"{year}-{month:02}-{day:02}",
    }
    draw = _markdown if number % 3 else _csv
    date = f"Last update: {day} {MONTHS[month - 1]} {year}"
    document = f"Table: {measure}\n\n{draw(columns, rows)}\n\n{date}"
    return {"document": document, "instructions": INSTRUCTIONS, "truth": truth, "planted": {}}


def _row(rng: random.Random, columns: list[str], measure: str, decimals: int, name: str) -> Row:
    row = [name]
    for column in columns[1:]:
        if column == measure:
            row.append(f"{rng.uniform(20, 4000):.{decimals}f}")
        elif rng.random() < 0.15:
            row.append("")
        else:
            row.append(rng.choice(WORDS) if column == columns[1] else str(rng.randint(1, 60)))
    return row


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _markdown(columns: list[str], rows: list[Row]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _csv(columns: list[str], rows: list[Row]) -> str:
    return "\n".join(";".join(line) for line in [columns, *rows])


# --- mistakes -----------------------------------------------------------------------------------

Planted = dict[str, list[Any]]


def _off_mean(rng: random.Random, record: dict[str, Any]) -> Planted:
    return {"mean": ["off_amount", round(record["truth"]["mean"] * rng.choice([1.1, 0.93]), 2)]}


def _swapped(_rng: random.Random, record: dict[str, Any]) -> Planted:
    truth = record["truth"]
    return {
        "row_count": ["swapped_fields", truth["empty_cells"]],
        "empty_cells": ["swapped_fields", truth["row_count"]],
    }


def _wrong_date(_rng: random.Random, record: dict[str, Any]) -> Planted:
    written = record["document"].rsplit(": ", 1)[1]
    return {"last_update": ["wrong_date_format", written]}


def _invented_column(_rng: random.Random, record: dict[str, Any]) -> Planted:
    return {"columns": ["invented_value", [*record["truth"]["columns"], "Remarks"]]}


def _off_count(_rng: random.Random, record: dict[str, Any]) -> Planted:
    return {"row_count": ["off_amount", record["truth"]["row_count"] + 1]}


def _wrong_row(_rng: random.Random, record: dict[str, Any]) -> Planted:
    """A neighbour of the right row: it stands in the table, too."""
    lines = [line for line in record["document"].splitlines() if ";" in line or "|" in line]
    names = [line.strip("| ").split(";")[0].split(" |")[0] for line in lines]
    wrong = next(n for n in reversed(names) if n not in {record["truth"]["highest_row"], "---"})
    return {"highest_row": ["wrong_span", wrong]}
