"""Where a scored record goes, by its policy: acceptance must be earned."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from schemas.policy import Policy
from schemas.reasons import FailureReason, ReviewReason, Route
from schemas.scored import Decision, FieldScore, Scores
from schemas.verdict import Facts, ReplyKind, Verdict

LITERAL_EVIDENCE = "literal-evidence"
"""The model name of the embedded verifier: no LLM, and so not to be accepted on."""

REVIEWED_FAILURES = {
    FailureReason.REFUSAL: ReviewReason.REFUSAL,
    FailureReason.CONTENT_FILTER: ReviewReason.CONTENT_FILTER,
    FailureReason.BUDGET_EXHAUSTED: ReviewReason.BUDGET_EXHAUSTED,
}
"""Failures that a person should look at: the document, not the provider, may be the cause."""


@dataclass(frozen=True, slots=True)
class RoutingRules:
    """The policy, and what of the run overrules it."""

    policy: Policy
    shadow: bool = False
    accept_literal_evidence: bool = False


def route(
    rules: RoutingRules,
    record_id: str,
    facts: Facts,
    scores: Scores,
    verdicts: Sequence[Verdict],
) -> Decision:
    """The decision on one record. It is accepted only when no rule speaks against it."""
    reasons = list(dict.fromkeys(_reasons(rules, facts, scores, verdicts)))
    rate = rules.policy.review.audit_rate
    probability = 1.0 if reasons else rate
    if not reasons and _in_audit_sample(record_id, rules.policy):
        reasons = [ReviewReason.AUDIT_SAMPLE.value]
    return Decision(
        route=Route.HUMAN_REVIEW if reasons else Route.AUTO_ACCEPT,
        reasons=tuple(reasons),
        review_probability=probability,
        untrustworthy_fields=_untrustworthy(scores.fields, rules.policy),
    )


def _reasons(
    rules: RoutingRules, facts: Facts, scores: Scores, verdicts: Sequence[Verdict]
) -> Iterator[str]:
    if rules.shadow:
        yield ReviewReason.SHADOW.value
    if not rules.accept_literal_evidence and any(map(_is_literal, verdicts)):
        yield ReviewReason.LITERAL_EVIDENCE_ONLY.value
    yield from _verdict_reasons(rules.policy, scores, verdicts)
    kinds = {v.kind for v in verdicts}
    for field in scores.fields:
        yield from _field_reasons(field, kinds, rules.policy)
    yield from _required(facts, rules.policy)
    yield from _fact_reasons(facts, rules.policy)


def _is_literal(verdict: Verdict) -> bool:
    return LITERAL_EVIDENCE in (verdict.model_asked, verdict.model_answered)


def _verdict_reasons(policy: Policy, scores: Scores, verdicts: Sequence[Verdict]) -> Iterator[str]:
    for verdict in verdicts:
        if verdict.reason in REVIEWED_FAILURES:
            yield REVIEWED_FAILURES[verdict.reason].value
    if scores.n_verdicts < policy.accept.verdicts_needed(scores.n_templates):
        yield ReviewReason.TOO_FEW_VERDICTS.value
    if scores.score is None or scores.score < policy.accept.document:
        yield ReviewReason.DOCUMENT_BELOW_THRESHOLD.value
    if any(v.reading.unmatched_names for v in verdicts):
        yield ReviewReason.UNMATCHED_FIELD_NAME.value


def _field_reasons(field: FieldScore, kinds: Iterable[ReplyKind], policy: Policy) -> Iterator[str]:
    if field.score is None:
        yield ReviewReason.UNSCORED_FIELD.of(field.field)
        return
    lacks_grade = ReplyKind.FIELD_SCORES in kinds and not field.graded
    lacks_audit = ReplyKind.INCORRECT_FIELDS in kinds and not field.audits
    if lacks_grade or lacks_audit:
        yield ReviewReason.THIN_FIELD.of(field.field)
    if field.score < policy.accept.threshold(field.field):
        yield ReviewReason.FIELD_BELOW_THRESHOLD.of(field.field)


def _required(facts: Facts, policy: Policy) -> Iterator[str]:
    for name in policy.accept.required:
        if name not in facts.fields or name in facts.empty_fields:
            yield ReviewReason.REQUIRED_FIELD_MISSING.of(name)


def _fact_reasons(facts: Facts, policy: Policy) -> Iterator[str]:
    if policy.review.schema_violations:
        for violation in facts.schema_violations:
            yield ReviewReason.SCHEMA_VIOLATION.of(violation.split(": ", 1)[0])
    if policy.review.instruction_like_text and facts.instruction_like_text:
        yield ReviewReason.INSTRUCTION_LIKE_TEXT.value


def _untrustworthy(fields: Sequence[FieldScore], policy: Policy) -> tuple[str, ...]:
    """Fields without a score, then those below their threshold, lowest first."""
    doubted = [f for f in fields if f.score is None or f.score < policy.accept.threshold(f.field)]
    doubted.sort(key=lambda f: -1.0 if f.score is None else f.score)
    return tuple(f.field for f in doubted)


def _in_audit_sample(record_id: str, policy: Policy) -> bool:
    """Whether the keyed hash of the id falls into the audited share: the same every time."""
    if policy.review.audit_rate <= 0:
        return False
    key = hashlib.blake2b((policy.review.audit_salt or "").encode()).digest()
    digest = hashlib.blake2b(record_id.encode("utf-8", "surrogatepass"), digest_size=8, key=key)
    return int.from_bytes(digest.digest()) < policy.review.audit_rate * 2**64
