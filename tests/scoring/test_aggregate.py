"""Aggregation: small cases computed by hand, and the rules for replies that are missing."""

import json

import pytest
from msgspec.structs import replace

from schemas.verdict import Reading, Verdict
from scoring.aggregate import ScoreScale, aggregate, harmonic_mean
from tests.support.builders import TEMPLATE_NAMES, good_reply, verdict, verdicts

AB = ("a", "b")


def numeric(**scores: int) -> str:
    return json.dumps({f: {"explanation": f"n {f}", "score": s} for f, s in scores.items()})


def audit(score: int, *flagged: str, key: str = "confidence_score") -> str:
    listed = [{"field_name": f, "explanation": f"audit {f}"} for f in flagged]
    return json.dumps({"explanation": "audited", "incorrect_fields": listed, key: score})


def critique(score: int) -> str:
    return f"<think>doubt</think><score>{score}</score>"


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0], 1.0),  # 1 / (1 / 1.001) = 1.001, cut to 1
        ([0.0], 0.001),  # 1 / (1 / 0.001)
        ([0.5, 0.5], 0.501),
        ([1.0, 0.0], 2 / (1 / 1.001 + 1000)),  # about 0.002: one bad field is enough
    ],
)
def test_harmonic_mean(scores: list[float], expected: float) -> None:
    """The harmonic mean with the method's 0.001, never above 1."""
    assert harmonic_mean(scores) == pytest.approx(expected, abs=1e-12)


def test_all_five_by_hand() -> None:
    """Document: the mean of five signals. Field: the mean of four, from [0.05, 0.95]."""
    replies = {
        "document_critique": critique(70),
        "fields_numeric": numeric(a=90, b=50),
        "fields_likert": json.dumps(
            {
                "a": {"explanation": "l a", "confidence": "Certain"},
                "b": {"explanation": "l b", "confidence": "Uncertain"},
            }
        ),
        "accuracy_audit": audit(20, "b"),
        "confidence_audit": audit(9, key="rating"),
    }
    scores = aggregate(AB, verdicts(AB, replies))
    expected_numeric = 2 / (1 / 0.901 + 1 / 0.501)
    expected_likert = 2 / (1 / 1.001 + 1 / 0.251)
    assert scores.signals == pytest.approx(
        {
            "document_critique": 0.7,
            "fields_numeric": expected_numeric,
            "fields_likert": expected_likert,
            "accuracy_audit": 0.2,
            "confidence_audit": 0.9,
        }
    )
    total = 0.7 + expected_numeric + expected_likert + 0.2 + 0.9
    assert scores.score == pytest.approx(total / 5)
    a, b = scores.fields
    # The mean of a's four signals, 0.9 1 0.9 and 0.9, is 0.925: 0.875 above the range's start.
    assert a.score == pytest.approx(0.001 + 0.998 * 0.875 / 0.9)
    # The mean of b's, 0.5 0.25 0.1 and 0.9, is 0.4375: 0.3875 above it.
    assert b.score == pytest.approx(0.001 + 0.998 * 0.3875 / 0.9)
    assert (a.explanation, b.explanation) == ("n a", "audit b")
    assert scores.explanation == "audited"
    assert (scores.n_verdicts, scores.n_templates) == (5, 5)


def test_the_raw_scale_is_the_plain_mean() -> None:
    """--score_scale raw leaves the mean of the signals as it is."""
    scores = aggregate(AB, verdicts(AB, {"fields_numeric": numeric(a=90, b=50)}), ScoreScale.RAW)
    assert [f.score for f in scores.fields] == pytest.approx([3.7 / 4, 3.3 / 4])


def test_a_reply_that_lacks_a_field_gives_no_document_signal() -> None:
    """Its field signals count; the document's mean is over the other four."""
    scores = aggregate(AB, verdicts(AB, {"fields_numeric": numeric(a=0)}))
    assert "fields_numeric" not in scores.signals
    assert scores.n_verdicts == 5
    assert [f.graded for f in scores.fields] == [2, 1]
    # The mean of a's signals, 0 1 0.9 and 0.9, is 0.7: 0.65 above the range's start.
    assert scores.fields[0].score == pytest.approx(0.001 + 0.998 * 0.65 / 0.9)


def test_audits_alone_give_an_unflagged_field_the_highest_score() -> None:
    """0.9 is the top of what audits can give, so it is rescaled to 0.999: routing must mind."""
    missing = {"fields_numeric": None, "fields_likert": None, "document_critique": None}
    scores = aggregate(AB, verdicts(AB, missing))
    assert [f.score for f in scores.fields] == pytest.approx([0.999, 0.999])
    assert [(f.graded, f.audits) for f in scores.fields] == [(0, 2), (0, 2)]
    assert scores.n_verdicts == 2


@pytest.mark.parametrize(
    ("arrived", "low", "high"),
    [
        (("fields_numeric",), 0.0, 1.0),
        (("accuracy_audit",), 0.1, 0.9),
        (("fields_numeric", "accuracy_audit"), 0.05, 0.95),
    ],
)
def test_the_range_is_that_of_the_signals_that_arrived(
    arrived: tuple[str, ...], low: float, high: float
) -> None:
    """The worst reachable mean becomes 0.001 and the best 0.999."""
    for confidence, mean, expected in ((0.0, low, 0.001), (1.0, high, 0.999)):
        given = [verdict(t, ("a",), good_reply(t, ("a",), confidence)) for t in arrived]
        (field,) = aggregate(("a",), given).fields
        (raw,) = aggregate(("a",), given, ScoreScale.RAW).fields
        assert raw.score == pytest.approx(mean)
        assert field.score == pytest.approx(expected)


def test_without_any_verdict_there_is_no_score() -> None:
    """No answer is not an answer: null, not 0 and not 0.5."""
    scores = aggregate(AB, verdicts(AB, dict.fromkeys(verdict_names(), None)))
    assert scores.score is None
    assert [f.score for f in scores.fields] == [None, None]
    assert (scores.n_verdicts, scores.n_templates) == (0, 5)


def verdict_names() -> list[str]:
    return [v.template for v in verdicts(AB, {})]


@pytest.mark.parametrize("silent", range(5))
def test_ties_go_by_name_of_template(silent: int) -> None:
    """Of five equal signals the first that explains itself: in order of the templates' names."""
    names = TEMPLATE_NAMES[silent:]
    mute = Reading(document_score=1.0, field_scores={"a": 1.0})
    given = verdicts(("a",), {})
    given = [v if v.template in names else replace(v, reading=mute) for v in given]
    expected = f"{TEMPLATE_NAMES[silent]} explains"
    found = aggregate(("a",), given[::-1]).explanation
    assert found == (f"a: {expected}" if "fields" in expected else expected)


def test_ties_between_audits_go_by_name() -> None:
    """Of equally low signals, accuracy_audit's explanation comes first."""
    scores = aggregate(
        ("a",),
        verdicts(
            ("a",),
            {
                "document_critique": critique(10),
                "accuracy_audit": audit(10, "a"),
                "confidence_audit": audit(1, "a", key="rating"),
            },
        ),
    )
    assert scores.explanation == "audited"
    assert scores.fields[0].explanation == "audit a"


def test_the_documents_explanation_names_the_lowest_field() -> None:
    """When a field template trusts the document least, its lowest field speaks for it."""
    scores = aggregate(AB, verdicts(AB, {"fields_numeric": numeric(a=80, b=3)}))
    assert scores.explanation == "b: n b"


def test_the_next_lowest_explains_when_the_lowest_does_not() -> None:
    """A signal without an explanation is passed over."""
    silent = json.dumps({"incorrect_fields": [], "confidence_score": 1})
    replies = {"accuracy_audit": silent, "document_critique": critique(20)}
    assert aggregate(AB, verdicts(AB, replies)).explanation == "doubt"


def test_a_fields_explanation_is_that_of_its_lowest_signal_that_has_one() -> None:
    """An audit's 0.1 is lower than a rating of 0.5; without a text the next lowest speaks."""
    silent = json.dumps({"incorrect_fields": ["a"], "confidence_score": 5})
    replies = {"fields_numeric": numeric(a=50, b=95), "accuracy_audit": silent}
    a, b = aggregate(AB, verdicts(AB, replies)).fields
    assert (a.explanation, b.explanation) == ("n a", "n b")
    spoken = {**replies, "accuracy_audit": audit(5, "a")}
    assert aggregate(AB, verdicts(AB, spoken)).fields[0].explanation == "audit a"


@pytest.mark.parametrize(
    ("missing", "total"),
    [
        # 0.7 0.4 0.2 and the rest 1: without one template, the mean is over the other four.
        ((), (0.7 + 0.4 + 0.2 + 1 + 1) / 5),
        (("document_critique",), (0.4 + 0.2 + 1 + 1) / 4),
        (("accuracy_audit",), (0.7 + 0.2 + 1 + 1) / 4),
        (("accuracy_audit", "confidence_audit"), (0.7 + 1 + 1) / 3),
        (("fields_numeric", "fields_likert", "accuracy_audit", "confidence_audit"), 0.7),
    ],
)
def test_a_missing_template_is_left_out_of_the_mean(missing: tuple[str, ...], total: float) -> None:
    """It is neither 0 nor 0.5."""
    replies: dict[str, str | None] = {
        "document_critique": critique(70),
        "accuracy_audit": audit(40),
        "confidence_audit": audit(2, key="rating"),
    }
    scores = aggregate(AB, verdicts(AB, replies | dict.fromkeys(missing)))
    assert scores.score == pytest.approx(total)
    assert set(scores.signals).isdisjoint(missing)
    assert (scores.n_verdicts, scores.n_templates) == (5 - len(missing), 5)


def test_an_audit_without_a_list_gives_the_document_alone_a_signal() -> None:
    """And one with a name that fits no field does: the fields get nothing from either."""
    no_list = json.dumps({"explanation": "e", "confidence_score": 40})
    odd = json.dumps({"explanation": "e", "incorrect_fields": ["zz"], "rating": 4})
    scores = aggregate(AB, verdicts(AB, {"accuracy_audit": no_list, "confidence_audit": odd}))
    assert (scores.signals["accuracy_audit"], scores.signals["confidence_audit"]) == (0.4, 0.4)
    assert [(f.graded, f.audits) for f in scores.fields] == [(2, 0), (2, 0)]


def test_an_audit_without_a_score_gives_fields_alone_signals() -> None:
    """Its list counts, the document's mean is over the other four."""
    listed = json.dumps({"explanation": "e", "incorrect_fields": ["a"]})
    scores = aggregate(AB, verdicts(AB, {"accuracy_audit": listed}))
    assert "accuracy_audit" not in scores.signals
    # The mean of a's signals, 1 1 0.1 and 0.9, is 0.75: 0.7 above the range's start.
    assert scores.fields[0].score == pytest.approx(0.001 + 0.998 * 0.7 / 0.9)


@pytest.mark.parametrize("given", [[], [verdict("fields_numeric", AB, None)]])
def test_nothing_makes_nothing(given: list[Verdict]) -> None:
    """No verdicts, or none that is good: every score is null."""
    scores = aggregate(AB, given)
    assert (scores.score, scores.explanation, scores.signals) == (None, None, {})
    assert [(f.field, f.score, f.explanation) for f in scores.fields] == [
        ("a", None, None),
        ("b", None, None),
    ]
    assert scores.n_verdicts == 0


def chunks(*replies: tuple[tuple[str, ...], str | None], template: str) -> list[Verdict]:
    return [verdict(template, fields, reply) for fields, reply in replies]


def test_chunks_of_a_field_template_are_one_verdict() -> None:
    """Their fields are put together; the document signal is over all of them."""
    given = chunks((("a",), numeric(a=80)), (("b",), numeric(b=40)), template="fields_numeric")
    scores = aggregate(AB, given)
    assert scores.signals["fields_numeric"] == pytest.approx(2 / (1 / 0.801 + 1 / 0.401))
    assert (scores.n_verdicts, scores.n_templates) == (1, 1)


@pytest.mark.parametrize("template", ["fields_numeric", "accuracy_audit"])
def test_a_missing_chunk_takes_the_document_signal_away(template: str) -> None:
    """The fields of the chunk that arrived keep their signals."""
    given = chunks((("a",), good_reply(template, ("a",))), (("b",), None), template=template)
    scores = aggregate(AB, given)
    assert scores.signals == {}
    assert scores.fields[0].score == pytest.approx(0.999)
    assert scores.fields[1].score is None


def test_an_audit_in_chunks_is_as_good_as_its_worst() -> None:
    """The lowest chunk's score and explanation stand for the document."""
    given = chunks((("a",), audit(95)), (("b",), audit(5, "b")), template="accuracy_audit")
    scores = aggregate(AB, given)
    assert scores.signals == {"accuracy_audit": 0.05}
    assert [f.score for f in scores.fields] == pytest.approx([0.999, 0.001])
    assert scores.explanation == "audited"


def test_an_audit_chunk_without_a_score_takes_the_document_signal_away() -> None:
    """Its list counts for its fields all the same."""
    listed = json.dumps({"explanation": "e", "incorrect_fields": ["b"]})
    given = chunks((("a",), audit(95)), (("b",), listed), template="accuracy_audit")
    scores = aggregate(AB, given)
    assert (scores.score, scores.signals) == (None, {})
    assert [f.score for f in scores.fields] == pytest.approx([0.999, 0.001])


def test_a_chunk_that_lacks_a_field_is_like_a_missing_one() -> None:
    """The template's document signal is over all fields or not at all."""
    given = chunks((("a",), numeric(a=80)), (("b", "c"), numeric(b=40)), template="fields_numeric")
    scores = aggregate(("a", "b", "c"), given)
    assert scores.signals == {}
    assert [f.score is None for f in scores.fields] == [False, False, True]


def test_the_order_of_verdicts_does_not_matter() -> None:
    """Replies arrive in any order; the scores are the same."""
    given = verdicts(AB, {"fields_numeric": numeric(a=33, b=66)})
    assert aggregate(AB, given) == aggregate(AB, given[::-1])
    renamed = [replace(v, record_id="other") for v in given]
    assert aggregate(AB, renamed) == aggregate(AB, given)
