"""Routing: acceptance is earned, and every reason for review has its case."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import AcceptRules, Policy, ReviewRules, parse_policy
from schemas.reasons import FailureReason, Route
from schemas.scored import Decision
from schemas.verdict import Verdict, VerdictStatus
from scoring.place import Placement, Unscorable, place
from scoring.routing import RoutingRules
from tests.support.builders import TEMPLATE_NAMES, good_reply, verdicts

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
        (verdicts(AB, {"fields_numeric": None, "fields_likert": None}), DEFAULT, THIN),
        (verdicts(AB, {"accuracy_audit": None, "confidence_audit": None}), DEFAULT, THIN),
    ],
)
def test_each_reason(given: list[Verdict], routing: RoutingRules, reasons: set[str]) -> None:
    """One thing is wrong: exactly that is the reason, and a review was certain."""
    decision = decide(given, routing)
    assert decision.route is Route.HUMAN_REVIEW
    assert set(decision.reasons) == reasons
    assert decision.review_probability == 1.0


def test_an_unscored_field_is_never_accepted() -> None:
    """No template spoke of b."""
    only_a = json.dumps({"a": {"score": 100, "confidence": "Certain"}})
    odd = {"accuracy_audit": ODD_NAME, "confidence_audit": None}
    given = verdicts(AB, {"fields_numeric": only_a, "fields_likert": only_a, **odd})
    decision = decide(given)
    assert "unscored_field:b" in decision.reasons
    assert decision.untrustworthy_fields == ("b",)


@pytest.mark.parametrize(
    ("templates", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (10, 6), (15, 9)]
)
def test_min_verdicts_defaults_to_three_fifths(templates: int, needed: int) -> None:
    """0.6 of the templates in the set, rounded up."""
    assert AcceptRules().verdicts_needed(templates) == needed


@pytest.mark.parametrize("reason", FailureReason)
def test_without_any_verdict(reason: FailureReason) -> None:
    """A dead letter, but for what a person should look at."""
    given = [replace(v, reason=reason) for v in verdicts(AB, dict.fromkeys(TEMPLATE_NAMES))]
    placed = place("r", given[0].facts, given, DEFAULT)
    if reason in {
        FailureReason.REFUSAL,
        FailureReason.CONTENT_FILTER,
        FailureReason.BUDGET_EXHAUSTED,
    }:
        assert isinstance(placed, Placement)
        assert placed.scores.score is None
        assert reason.value in placed.decision.reasons
    else:
        assert isinstance(placed, Unscorable)
        assert placed.reason is reason


def test_the_commonest_reason_is_the_dead_letters() -> None:
    """Three time-outs and two refusals: timeout."""
    given = verdicts(AB, dict.fromkeys(TEMPLATE_NAMES))
    kinds = [FailureReason.TIMEOUT] * 3 + [FailureReason.REFUSAL] * 2
    given = [replace(v, reason=r) for v, r in zip(given, kinds, strict=True)]
    placed = place("r", given[0].facts, given, DEFAULT)
    assert isinstance(placed, Unscorable)
    assert placed.reason is FailureReason.TIMEOUT


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


def test_what_a_rule_reviews_is_no_audit_sample() -> None:
    """An audit samples only what would have been accepted."""
    given = verdicts(AB, {"document_critique": "<score>0</score>"})
    assert decide(given, audited(1.0)).reasons == ("document_below_threshold",)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accept: {document: 2}", "accept.document"),
        ("accept: {fields: {default: -1}}", "accept.fields.default"),
        ("accept: {min_verdicts: 0}", "accept.min_verdicts"),
        ("reviw: {}", "reviw"),
        ("review: {audit_rate: 0.1}", "audit_salt"),
        ("- a", "must hold a mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_by_key(text: str, message: str) -> None:
    """The error names the file and the key."""
    with pytest.raises(Exception, match=message) as error:
        parse_policy(text, "policy.yaml")
    assert "policy.yaml" in str(error.value)


def test_an_empty_policy_is_the_default() -> None:
    """No key is needed; equal rules have equal versions, other rules another."""
    assert parse_policy("", "p") == Policy()
    assert parse_policy("accept: {document: 0.85}", "p").version == Policy().version
    assert parse_policy("accept: {document: 0.86}", "p").version != Policy().version


def _replies() -> st.SearchStrategy[dict[str, str | None]]:
    """Each of five replies: good, missing, cut off, garbage, about one field, or the wrong kind."""

    def of(name: str) -> st.SearchStrategy[str | None]:
        good = good_reply(name, AB)
        return st.sampled_from(
            [
                good,
                good,
                good,
                None,
                good[: len(good) // 2],
                "garbage",
                good_reply(name, ("a",)),
                good_reply(name, AB, 0.0),
                "{}",
                good_reply("fields_numeric", AB),
                ODD_NAME,
            ]
        )

    return st.fixed_dictionaries({name: of(name) for name in TEMPLATE_NAMES})


@given(replies=_replies())
def test_losing_replies_never_leads_to_acceptance(replies: dict[str, str | None]) -> None:
    """Accepted means: enough verdicts, and for each field one graded rating and one audit."""
    given = verdicts(AB, replies)
    placed = place("r", given[0].facts, given, DEFAULT)
    if isinstance(placed, Unscorable) or placed.decision.route is Route.HUMAN_REVIEW:
        return
    good = [v for v in given if v.status is VerdictStatus.OK]
    assert len(good) >= 3
    for field in AB:
        scored_by = {v.template for v in good if field in v.reading.field_scores}
        assert scored_by & {"fields_numeric", "fields_likert"}
        assert scored_by & {"accuracy_audit", "confidence_audit"}


@given(replies=_replies(), dropped=st.sets(st.sampled_from(TEMPLATE_NAMES)))
def test_scores_stay_in_range(replies: dict[str, str | None], dropped: set[str]) -> None:
    """Every score is null or within [0, 1]."""
    given = verdicts(AB, {**replies, **dict.fromkeys(dropped)})
    placed = place("r", given[0].facts, given, DEFAULT)
    if isinstance(placed, Placement):
        scores = [placed.scores.score, *(f.score for f in placed.scores.fields)]
        assert all(s is None or 0 <= s <= 1 for s in scores)
