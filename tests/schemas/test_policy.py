"""The policy file: wrong keys are named, versions follow the content, thresholds have defaults."""

import pytest

from schemas.errors import UsageError
from schemas.policy import AcceptRules, Policy, parse_policy

WHOLE = """
accept:
  document: 0.9
  fields: {default: 0.7, total_amount: 0.95}
  required: [invoice_number]
  min_verdicts: 4
review:
  audit_rate: 0.05
  audit_salt: not to be guessed
  schema_violations: false
  instruction_like_text: false
"""


def test_every_key_is_read() -> None:
    """The file's values arrive where routing looks for them."""
    policy = parse_policy(WHOLE, "p")
    accept, review = policy.accept, policy.review
    assert (accept.document, accept.required, accept.min_verdicts) == (0.9, ("invoice_number",), 4)
    assert (accept.threshold("total_amount"), accept.threshold("other")) == (0.95, 0.7)
    assert (review.audit_rate, review.audit_salt) == (0.05, "not to be guessed")
    assert not review.schema_violations
    assert not review.instruction_like_text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accept: {document: 2}", "accept.document"),
        ("accept: {document: .nan}", "accept.document"),
        ("accept: {document: high}", "accept.document"),
        ("accept: {fields: {default: -1}}", "accept.fields.default"),
        ("accept: {fields: {total: null}}", "accept.fields.total"),
        ("accept: {fields: {1: 0.5}}", "accept.fields.1"),
        ("accept: {fields: null}", "accept.fields"),
        ("accept: {min_verdicts: 0}", "accept.min_verdicts"),
        ("accept: {min_verdicts: 2.5}", "accept.min_verdicts"),
        ("accept: {required: invoice_number}", "accept.required"),
        ("accept: {documents: 0.9}", "accept.documents"),
        ("accept:", "accept"),
        ("reviw: {}", "reviw"),
        ("review: {audit_rate: 1.5}", "review.audit_rate"),
        ("review: {audit_rate: 0.1}", "audit_salt"),
        ("review: {audit_rate: 0.1, audit_salt: ''}", "audit_salt"),
        ("review: {schema_violations: perhaps}", "review.schema_violations"),
        ("- a", "must hold a mapping"),
        ("accept", "must hold a mapping"),
        ("a: [", "not YAML"),
        ("\x00", "not YAML"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_a_wrong_policy_is_refused_by_key(text: str, message: str) -> None:
    """The error names the file and the key."""
    with pytest.raises(UsageError, match=r"policy\.yaml") as error:
        parse_policy(text, "policy.yaml")
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["", "# nothing", "{}", "accept: {document: 0.85}"])
def test_what_is_not_said_is_the_default(text: str) -> None:
    """No key is needed, and one that says the default changes nothing."""
    assert parse_policy(text, "p") == Policy()
    assert parse_policy(text, "p").version == Policy().version


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("accept: {document: 0.86}", "accept: {document: 0.85}", False),
        ("accept: {fields: {a: 0.1, b: 0.2}}", "accept: {fields: {b: 0.2, a: 0.1}}", True),
        ("accept: {fields: {a: 0.1, b: 0.2}}", "accept: {fields: {a: 0.2, b: 0.1}}", False),
        ("accept: {required: [a]}", "accept: {required: [b]}", False),
        ("review: {audit_salt: a}", "review: {audit_salt: b}", False),
    ],
)
def test_the_version_follows_the_content(one: str, other: str, same: bool) -> None:
    """Equal rules have equal versions, in whatever order they are written."""
    first, second = parse_policy(one, "p"), parse_policy(other, "p")
    assert (first == second) is same
    assert (first.version == second.version) is same


def test_a_field_without_a_threshold_needs_the_default() -> None:
    """0.8 where the file has no `default` either."""
    assert AcceptRules(fields={"a": 0.5}).threshold("b") == 0.8
    assert AcceptRules(fields={"default": 0.6}).threshold("b") == 0.6


@pytest.mark.parametrize(
    ("templates", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (10, 6), (15, 9)]
)
def test_min_verdicts_defaults_to_three_fifths(templates: int, needed: int) -> None:
    """0.6 of the templates in the set, rounded up; a figure in the file stands as it is."""
    assert AcceptRules().verdicts_needed(templates) == needed
    assert AcceptRules(min_verdicts=2).verdicts_needed(templates) == 2
