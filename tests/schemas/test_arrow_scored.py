"""Output rows: the input's columns, then the scores, in one schema for all rows."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from schemas.arrow_scored import OutputShape, score_columns, scored_table
from schemas.evidence import Evidence, EvidenceKind
from schemas.parse_record import parse_record
from schemas.reasons import Route
from schemas.row import Row
from schemas.scored import Decision, FieldScore, ScoredRecord, Scores, Usage

AT = datetime(2026, 3, 1, tzinfo=UTC)
INPUT = pa.RecordBatch.from_pylist(
    [{"id": 7, "document": "d 40", "output": '{"a": 40, "b": null}', "batch": "x"}]
)
FOUND = Evidence(EvidenceKind.EXACT, 0, 2, 4, "40", 1.0)
FIELDS = (FieldScore("a", 0.9, "in it", FOUND), FieldScore("b", None))


def scored(score: float | None = 0.5, row: Row | None = None) -> ScoredRecord:
    values = {"id": 7, "document": "d 40", "output": {"a": 40, "b": None}}
    return ScoredRecord(
        record=parse_record(values, row),
        scores=Scores(score, "why", FIELDS, {"t1": 0.5}, 1, 2),
        decision=Decision(Route.HUMAN_REVIEW, ("unscored_field:b",), 1.0, ("b",)),
        usage=Usage(2, 10, 5, 0, None, 12.5),
        verifier_model="m",
        template_set="s",
        policy_version="p",
        scored_at=AT,
    )


def test_a_row_holds_the_input_and_the_scores() -> None:
    """Ids are text, what did not arrive is null, the other input columns are as they were."""
    shape = OutputShape(INPUT.schema, ("t1", "t2"))
    table = scored_table([scored(row=Row(INPUT, 0))], shape)
    assert table.schema == shape.schema
    (row,) = table.to_pylist()
    assert (row["id"], row["document"], row["batch"]) == ("7", "d 40", "x")
    assert row["output"] == '{"a": 40, "b": null}'
    assert (row["trustworthiness_score"], row["trustworthiness_explanation"]) == (0.5, "why")
    assert row["per_field_scores"][0]["evidence"]["text"] == "40"
    assert row["per_field_scores"][1] == {
        "field": "b",
        "score": None,
        "explanation": None,
        "evidence": None,
    }
    assert row["signals"] == {"t1": 0.5, "t2": None, "n_verdicts": 1}
    assert (row["route"], row["review_reasons"]) == ("human_review", ["unscored_field:b"])
    assert (row["review_probability"], row["untrustworthy_fields"]) == (1.0, ["b"])
    assert (row["verifier_model"], row["template_set"], row["policy_version"]) == ("m", "s", "p")
    assert row["scored_at"] == AT
    assert row["usage"] == {
        "calls": 2,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "cached_tokens": 0,
        "cost_usd": None,
        "latency_ms": 12.5,
    }


@pytest.mark.parametrize("count", [0, 3])
def test_any_number_of_rows_has_one_schema(count: int) -> None:
    """Also none, and rows whose record has no input row."""
    shape = OutputShape(INPUT.schema, ("t1", "t2"))
    table = scored_table([scored(None)] * count, shape)
    assert table.schema == shape.schema
    assert table["trustworthiness_score"].to_pylist() == [None] * count
    assert table["batch"].to_pylist() == [None] * count


def test_prefix_and_flat_columns() -> None:
    """The prefix goes before every score column; flat fields get two columns each, null if absent."""
    shape = OutputShape(INPUT.schema, ("t1",), prefix="cb_", flat_fields=("a", "zz"))
    (row,) = scored_table([scored(row=Row(INPUT, 0))], shape).to_pylist()
    assert row["cb_trustworthiness_score"] == 0.5
    assert (row["cb_score__a"], row["cb_explanation__a"]) == (0.9, "in it")
    assert (row["cb_score__zz"], row["cb_explanation__zz"]) == (None, None)
    assert set(row) - set(INPUT.schema.names) == {
        f"cb_{n}"
        for n in (
            *score_columns(("t1",)).names,
            *("score__a", "score__zz", "explanation__a", "explanation__zz"),
        )
    }


def test_a_scored_record_answers_by_name() -> None:
    """What a caller in Python asks for."""
    one = scored()
    assert one.trustworthiness_score == 0.5
    assert one.trustworthiness_explanation == "why"
    assert one.per_field_scores["a"].score == 0.9
    assert one.untrustworthy_fields == ("b",)
    assert one.route is Route.HUMAN_REVIEW
