"""Routing: acceptance is earned, and every reason for review has its case."""

import json
import math
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.policy import AcceptRules, Policy, ReviewRules
from schemas.reasons import FailureReason, Route
from schemas.scored import Decision
from schemas.verdict import Verdict
from scoring.aggregate import aggregate
from scoring.place import Placement, place
from scoring.routing import RoutingRules
from tests.support.builders import good_reply, verdict, verdicts, verdicts_from_replies

AB = ("a", "b")
DEFAULT = RoutingRules(Policy())


def decide(given: list[Verdict], rules: RoutingRules = DEFAULT, record_id: str = "r") -> Decision:
    placed = place(record_id, given[0].facts, given, rules)
    assert isinstance(placed, Placement)
    return placed.decision


def with_facts(given: list[Verdict], **facts: Any) -> list[Verdict]:
    return [replace(v, facts=replace(v.facts, **facts)) for v in given]


def lost(template: str, reason: FailureReason) -> list[Verdict]:
    return [
        replace(v, reason=reason) if v.template == template else v
        for v in verdicts(AB, {template: None})
    ]


def rules(**changes: Any) -> RoutingRules:
    return RoutingRules(Policy(accept=AcceptRules(**changes)))


def test_a_record_without_any_doubt_is_accepted() -> None:
    """All verdicts good, all scores high."""
    decision = decide(verdicts(AB, {}))
    assert decision == Decision(Route.AUTO_ACCEPT, (), 0.0, ())


LOW_B = {"fields_numeric": json.dumps({"a": {"score": 99}, "b": {"score": 0}})}
ODD_NAME = json.dumps({"explanation": "", "incorrect_fields": ["zzz"], "confidence_score": 99})

LITERAL = [replace(v, model_answered="literal-evidence") for v in verdicts(AB, {})]
ONE_LITERAL = [replace(LITERAL[0], model_answered=None, model_asked="literal-evidence"), *verdicts(AB, {})[1:]]  # fmt: skip
THIN = {"thin_field:a", "thin_field:b"}


@pytest.mark.parametrize(
    ("given", "routing", "reasons"),
    [
        (
            verdicts(AB, {"document_critique": "<score>0</score>"}),
            DEFAULT,
            {"document_below_threshold"},
        ),
        (verdicts(AB, LOW_B), rules(document=0.5), {"field_below_threshold:b"}),
        (verdicts(AB, {}), rules(fields={"b": 1.0}), {"field_below_threshold:b"}),
        (verdicts(AB, {"accuracy_audit": ODD_NAME}), DEFAULT, {"unmatched_field_name"}),
        (verdicts(AB, {}), rules(min_verdicts=6), {"too_few_verdicts"}),
        (verdicts(AB, {}), rules(required=("c",)), {"required_field_missing:c"}),
        (
            with_facts(verdicts(AB, {}), empty_fields=("a",)),
            rules(required=("a",)),
            {"required_field_missing:a"},
        ),
        (
            with_facts(verdicts(AB, {}), schema_violations=("$.a: x",)),
            DEFAULT,
            {"schema_violation:$.a"},
        ),
        (
            with_facts(verdicts(AB, {}), instruction_like_text=("x",)),
            DEFAULT,
            {"instruction_like_text"},
        ),
        (lost("document_critique", FailureReason.REFUSAL), DEFAULT, {"refusal"}),
        (lost("document_critique", FailureReason.CONTENT_FILTER), DEFAULT, {"content_filter"}),
        (lost("document_critique", FailureReason.BUDGET_EXHAUSTED), DEFAULT, {"budget_exhausted"}),
        (verdicts(AB, {}), RoutingRules(Policy(), shadow=True), {"shadow"}),
        (LITERAL, DEFAULT, {"literal_evidence_only"}),
        (ONE_LITERAL, DEFAULT, {"literal_evidence_only"}),
        (verdicts(AB, {"fields_numeric": None, "fields_likert": None}), DEFAULT, THIN),
        (verdicts(AB, {"accuracy_audit": None, "confidence_audit": None}), DEFAULT, THIN),
        (
            verdicts(
                AB, {"document_critique": None, "fields_likert": None, "accuracy_audit": None}
            ),
            DEFAULT,
            {"too_few_verdicts"},
        ),
        (
            with_facts(verdicts(AB, {}), schema_violations=("$.a: x", "$.a: y", "$['b c']: z: w")),
            DEFAULT,
            {"schema_violation:$.a", "schema_violation:$['b c']"},
        ),
    ],
)
def test_each_reason(given: list[Verdict], routing: RoutingRules, reasons: set[str]) -> None:
    """One thing is wrong: exactly that is the reason, and a review was certain."""
    decision = decide(given, routing)
    assert decision.route is Route.HUMAN_REVIEW
    assert set(decision.reasons) == reasons
    assert len(decision.reasons) == len(reasons)
    assert decision.review_probability == 1.0


@pytest.mark.parametrize(
    ("given", "routing"),
    [
        (verdicts(AB, {"document_critique": None}), DEFAULT),
        (verdicts(AB, {"fields_numeric": None, "confidence_audit": None}), DEFAULT),
        (verdicts(AB, {"document_critique": "<score>30</score>"}), DEFAULT),  # 4.3 / 5 = 0.86
        (verdicts(AB, LOW_B), rules(document=0.5, fields={"b": 0.5})),
        (verdicts(AB, {"document_critique": "<score>0</score>"}), rules(document=0)),
        (verdicts(AB, {}), rules(required=("a", "b"))),
        (with_facts(verdicts(AB, {}), empty_fields=("a",)), rules(required=("b",))),
        (
            with_facts(verdicts(AB, {}), schema_violations=("$.a: x",)),
            RoutingRules(Policy(review=ReviewRules(schema_violations=False))),
        ),
        (
            with_facts(verdicts(AB, {}), instruction_like_text=("x",)),
            RoutingRules(Policy(review=ReviewRules(instruction_like_text=False))),
        ),
        (LITERAL, RoutingRules(Policy(), accept_literal_evidence=True)),
    ],
)
def test_what_is_no_reason(given: list[Verdict], routing: RoutingRules) -> None:
    """Enough is enough, and a policy may allow more."""
    assert decide(given, routing) == Decision(Route.AUTO_ACCEPT, (), 0.0, ())


def test_every_reason_is_told() -> None:
    """One does not hide the others."""
    given = with_facts(verdicts(AB, LOW_B), empty_fields=("a",), instruction_like_text=("x",))
    routing = RoutingRules(Policy(accept=AcceptRules(required=("a",))), shadow=True)
    assert set(decide(given, routing).reasons) == {
        "shadow",
        "document_below_threshold",
        "field_below_threshold:b",
        "required_field_missing:a",
        "instruction_like_text",
    }


def test_a_score_at_its_threshold_suffices() -> None:
    """At least, not more than; the next greater threshold is missed."""
    given = verdicts(AB, LOW_B)
    scores = aggregate(AB, given)
    document, low = scores.score, scores.fields[1].score
    assert document is not None
    assert low is not None
    met = rules(document=document, fields={"b": low})
    assert decide(given, met).route is Route.AUTO_ACCEPT
    missed = rules(
        document=math.nextafter(document, 1), fields={"default": 0, "b": math.nextafter(low, 1)}
    )
    assert decide(given, missed).reasons == ("document_below_threshold", "field_below_threshold:b")


@pytest.mark.parametrize(
    ("templates", "reasons"),
    [
        (("document_critique", "fields_numeric"), ()),
        (("accuracy_audit", "confidence_audit"), ()),
        (("fields_likert", "accuracy_audit"), ()),
        (("document_critique",), ("unscored_field:a", "unscored_field:b")),
    ],
)
def test_a_set_is_asked_for_what_it_has(
    templates: tuple[str, ...], reasons: tuple[str, ...]
) -> None:
    """A set without audits, or without ratings, cannot be thin of them; fields must be scored."""
    given = verdicts_from_replies(AB, {name: good_reply(name, AB) for name in templates})
    assert decide(given).reasons == reasons


def test_chunks_of_one_template_count_once() -> None:
    """Two chunks and another template are two verdicts of the three that are needed."""
    replies = {"accuracy_audit": good_reply("accuracy_audit", AB), "confidence_audit": None}
    chunks = [verdict("fields_numeric", (f,), good_reply("fields_numeric", (f,))) for f in AB]
    missing = dict.fromkeys(("document_critique", "fields_likert"))
    given = [*verdicts_from_replies(AB, {**replies, **missing}), *chunks]
    assert decide(given).reasons == ("too_few_verdicts",)


def test_an_unscored_field_is_never_accepted() -> None:
    """No template spoke of b."""
    only_a = json.dumps({"a": {"score": 100, "confidence": "Certain"}})
    odd = {"accuracy_audit": ODD_NAME, "confidence_audit": None}
    given = verdicts(AB, {"fields_numeric": only_a, "fields_likert": only_a, **odd})
    decision = decide(given)
    assert "unscored_field:b" in decision.reasons
    assert decision.untrustworthy_fields == ("b",)


def audited(rate: float, salt: str = "s") -> RoutingRules:
    return RoutingRules(Policy(review=ReviewRules(audit_rate=rate, audit_salt=salt)))


def test_the_audit_sample_is_a_stable_share() -> None:
    """About the rate is audited, the same ids each time, others under another salt."""
    given = verdicts(AB, {})
    ids = [f"r{i}" for i in range(2000)]

    def sample(routing: RoutingRules) -> set[str]:
        decisions = {i: decide(given, routing, i) for i in ids}
        assert {d.review_probability for d in decisions.values()} == {0.2}
        assert all(d.reasons in ((), ("audit_sample",)) for d in decisions.values())
        return {i for i, d in decisions.items() if d.route is Route.HUMAN_REVIEW}

    one = sample(audited(0.2))
    assert 0.16 < len(one) / len(ids) < 0.24
    assert sample(audited(0.2)) == one
    assert sample(audited(0.2, "other")) != one


def test_every_worker_audits_the_same_ids() -> None:
    """The hash is ours, not the process's: these ids, today and later."""
    given = verdicts(AB, {})
    chosen = [i for i in range(20) if decide(given, audited(0.2), f"r{i}").reasons]
    assert chosen == [2, 8, 15]


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.1), (0.1, 0.4), (0.4, 1.0)])
def test_a_higher_rate_audits_those_and_more(low: float, high: float) -> None:
    """At 0 none is audited, at 1 each one."""
    given = verdicts(AB, {})

    def sample(rate: float) -> set[int]:
        return {i for i in range(300) if decide(given, audited(rate), f"r{i}").reasons}

    assert sample(low) < sample(high)
    assert len(sample(0.0)) == 0
    assert len(sample(1.0)) == 300


def test_what_a_rule_reviews_is_no_audit_sample() -> None:
    """An audit samples only what would have been accepted."""
    given = verdicts(AB, {"document_critique": "<score>0</score>"})
    decision = decide(given, audited(1.0))
    assert decision.reasons == ("document_below_threshold",)
    assert decision.review_probability == 1.0


def test_untrustworthy_fields_are_lowest_first() -> None:
    """Unscored, then by score."""
    fields = ("a", "b", "c")
    scores = {"a": {"score": 40}, "b": {"score": 10}}
    ratings = {"a": {"confidence": "Uncertain"}, "b": {"confidence": "Uncertain"}}
    replies: dict[str, str | None] = {
        "fields_numeric": json.dumps(scores),
        "fields_likert": json.dumps(ratings),
        "accuracy_audit": None,
        "confidence_audit": None,
    }
    assert decide(verdicts(fields, replies)).untrustworthy_fields == ("c", "b", "a")
