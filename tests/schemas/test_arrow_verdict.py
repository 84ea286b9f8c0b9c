"""The verdict log: what is written is read back, and other programs can read it."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrow_verdict import VERDICT_SCHEMA, verdict_table, verdicts_of
from schemas.reasons import FailureReason
from schemas.verdict import CallUsage, Facts, Reading, ReplyKind, Verdict, VerdictStatus
from tests.support.builders import verdicts

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.lists(TEXT, max_size=3, unique=True).map(tuple)
SIGNAL = st.floats(0, 1)
COUNT = st.integers(0, 2**31 - 1)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    scores = draw(st.dictionaries(TEXT, SIGNAL, max_size=4))
    explained = [field for field in scores if draw(st.booleans())]
    return Reading(
        document_score=draw(st.none() | SIGNAL),
        explanation=draw(st.none() | TEXT),
        field_scores=scores,
        field_explanations={field: draw(TEXT.filter(bool)) for field in explained},
        unmatched_names=draw(NAMES),
        notes=draw(NAMES),
    )


VERDICTS = st.builds(
    Verdict,
    record_id=TEXT,
    template=TEXT,
    kind=st.sampled_from(ReplyKind),
    asked_fields=NAMES,
    status=st.sampled_from(VerdictStatus),
    facts=st.builds(
        Facts,
        fields=NAMES,
        empty_fields=NAMES,
        schema_violations=NAMES,
        instruction_like_text=NAMES,
    ),
    reading=readings(),
    reason=st.none() | st.sampled_from(FailureReason),
    detail=st.none() | TEXT,
    reply=st.none() | TEXT,
    model_asked=st.none() | TEXT,
    model_answered=st.none() | TEXT,
    template_set=st.none() | TEXT,
    usage=st.builds(
        CallUsage,
        attempts=COUNT,
        prompt_tokens=COUNT,
        completion_tokens=COUNT,
        cached_tokens=COUNT,
        cost_usd=st.none() | st.floats(0, 100),
        latency_ms=st.none() | st.floats(0, 1e6),
    ),
    arrived_at=st.none() | st.datetimes(timezones=st.just(UTC)),
)


@given(given=st.lists(VERDICTS, max_size=4))
def test_any_verdicts_survive_the_log(given: list[Verdict]) -> None:
    """Written to Arrow and read back, they are equal."""
    table = verdict_table(given)
    assert table.schema == VERDICT_SCHEMA
    assert list(verdicts_of(table)) == given


def test_read_verdicts_of_every_template_survive() -> None:
    """Good ones, a missing one, and one that names a field that is not there."""
    replies = {"fields_numeric": None, "accuracy_audit": '{"incorrect_fields": ["zz"]}'}
    given = verdicts(("a", "b"), replies)
    assert list(verdicts_of(verdict_table(given))) == given


def test_the_log_is_a_plain_table() -> None:
    """One row a verdict, scores as a list of structs, times in UTC."""
    (first, *_) = verdicts(("a",), {})
    at = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
    table = verdict_table([Verdict(**{n: getattr(first, n) for n in first.__struct_fields__} | {"arrived_at": at})])  # fmt: skip
    (row,) = table.to_pylist()
    assert (row["record_id"], row["template"], row["status"]) == ("r", "accuracy_audit", "ok")
    assert row["field_scores"] == [{"field": "a", "score": 0.9, "explanation": None}]
    assert row["facts"]["fields"] == ["a"]
    assert row["arrived_at"] == at
    assert pa.types.is_timestamp(table.schema.field("arrived_at").type)
