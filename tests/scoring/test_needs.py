"""When the verdicts so far are all that acceptance needs."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import AcceptRules, Policy
from schemas.reasons import FailureReason
from schemas.verdict import Facts, Reading, Verdict, VerdictStatus
from scoring.needs import needs_are_met
from scoring.place import Placement, place
from scoring.routing import RoutingRules
from scoring.templates import Template
from tests.support.builders import TEMPLATE_NAMES, TEMPLATES, good_reply, verdict

CRITIQUE, NUMERIC, LIKERT = "document_critique", "fields_numeric", "fields_likert"
ACCURACY, CONFIDENCE = "accuracy_audit", "confidence_audit"
GRADED, AUDITS = (NUMERIC, LIKERT), (ACCURACY, CONFIDENCE)
FIELDS = ("a", "b")


def templates(*names: str) -> list[Template]:
    return [TEMPLATES[name] for name in names or TEMPLATE_NAMES]


def needing(least: int | None = None) -> Policy:
    return Policy(accept=AcceptRules(min_verdicts=least))


def good(name: str, fields: Sequence[str] = FIELDS) -> Verdict:
    return verdict(name, fields, good_reply(name, fields))


def met(
    names: Sequence[str],
    of: Sequence[str] = (),
    least: int | None = None,
    replies: Mapping[str, str | None] = MappingProxyType({}),
) -> bool:
    """Whether good verdicts of templates `names` are enough, of a set of templates `of`."""
    done = [verdict(n, FIELDS, replies.get(n, good_reply(n, FIELDS))) for n in names]
    return needs_are_met(needing(least), templates(*of), FIELDS, done)


@pytest.mark.parametrize(
    ("names", "enough"),
    [
        ([], False),
        ([NUMERIC, ACCURACY], False),
        ([CRITIQUE, NUMERIC, LIKERT], False),
        ([CRITIQUE, ACCURACY, CONFIDENCE], False),
        ([CRITIQUE, NUMERIC, ACCURACY], True),
        ([CRITIQUE, LIKERT, CONFIDENCE], True),
        ([NUMERIC, LIKERT, ACCURACY], True),
        ([NUMERIC, LIKERT, CONFIDENCE], True),
        ([NUMERIC, ACCURACY, CONFIDENCE], True),
        ([CRITIQUE, LIKERT, NUMERIC, ACCURACY], True),
        ([CRITIQUE, NUMERIC, NUMERIC, NUMERIC, ACCURACY], True),
        ([NUMERIC, NUMERIC, ACCURACY], False),
        (TEMPLATE_NAMES, True),
    ],
)
def test_three_verdicts_of_five_with_a_grade_and_an_audit_are_enough(
    names: list[str], enough: bool
) -> None:
    """Under the default policy; chunks of one template count once."""
    assert met(names) is enough


@pytest.mark.parametrize(
    ("least", "names", "enough"),
    [
        (1, [NUMERIC], False),
        (1, [NUMERIC, ACCURACY], True),
        (2, [NUMERIC, ACCURACY], True),
        (4, [CRITIQUE, NUMERIC, ACCURACY], False),
        (4, [CRITIQUE, NUMERIC, LIKERT, ACCURACY], True),
        (5, [CRITIQUE, NUMERIC, LIKERT, ACCURACY], False),
        (5, TEMPLATE_NAMES, True),
        (6, TEMPLATE_NAMES, False),
    ],
)
def test_min_verdicts_of_the_policy_count(least: int, names: list[str], enough: bool) -> None:
    """Fewer do not excuse the lack of a grade or an audit; more than there are is never met."""
    assert met(names, least=least) is enough


@pytest.mark.parametrize(
    ("of", "names", "enough"),
    [
        ([NUMERIC], [NUMERIC], True),
        (GRADED, [LIKERT], False),
        (GRADED, GRADED, True),
        (AUDITS, AUDITS, True),
        (AUDITS, [ACCURACY], False),
        ([CRITIQUE], [CRITIQUE], True),
        ([CRITIQUE, NUMERIC], [CRITIQUE], False),
        ([CRITIQUE, NUMERIC], [CRITIQUE, NUMERIC], True),
        ([CRITIQUE, NUMERIC, ACCURACY], [CRITIQUE, NUMERIC], False),
        ([CRITIQUE, NUMERIC, ACCURACY], [NUMERIC, ACCURACY], True),
    ],
)
def test_only_what_the_set_has_is_needed(of: list[str], names: list[str], enough: bool) -> None:
    """0.6 of its templates, rounded up; a grade and an audit as far as it asks for them."""
    assert met(names, of) is enough


LISTS_UNKNOWN = json.dumps(
    {
        "explanation": "?",
        "incorrect_fields": [{"field_name": "zzz", "explanation": "?"}],
        "confidence_score": 90,
    }
)
ONE_FIELD = json.dumps({"a": {"explanation": "fine", "score": 90}})


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        (NUMERIC, None),
        (NUMERIC, "no idea"),
        (NUMERIC, ONE_FIELD),
        (NUMERIC, json.dumps({"a": {"score": 90}, "b": {"explanation": "?", "score": None}})),
        (ACCURACY, None),
        (ACCURACY, ""),
        (ACCURACY, LISTS_UNKNOWN),
    ],
)
def test_a_field_without_its_grade_or_audit_keeps_all_calls_going(
    name: str, reply: str | None
) -> None:
    """The call failed, its reply is none, lacks a field, or names one that fits none."""
    others = [CRITIQUE, NUMERIC, ACCURACY]
    assert met(others)
    assert not met(others, replies={name: reply})
    other = LIKERT if name == NUMERIC else CONFIDENCE
    assert met([*others, other], replies={name: reply})


def test_the_two_grades_may_cover_a_record_between_them() -> None:
    """Each field needs one, from whichever template or chunk."""
    done = [good(CRITIQUE), good(ACCURACY), good(NUMERIC, ["a"])]
    assert not needs_are_met(needing(), templates(), FIELDS, done)
    assert needs_are_met(needing(), templates(), FIELDS, [*done, good(LIKERT, ["b"])])
    assert needs_are_met(needing(), templates(), FIELDS, [*done, good(NUMERIC, ["b"])])
    assert not needs_are_met(needing(), templates(), (*FIELDS, "c"), [*done, good(LIKERT)])


def test_bad_scores_are_no_lack() -> None:
    """Needs are about what arrived, not about what it says."""
    done = [verdict(n, FIELDS, good_reply(n, FIELDS, 0.0)) for n in (CRITIQUE, LIKERT, ACCURACY)]
    assert needs_are_met(needing(), templates(), FIELDS, done)


def late(name: str) -> Verdict:
    """What a call becomes that is cut off."""
    return Verdict(
        record_id="r",
        template=name,
        kind=TEMPLATES[name].reply,
        asked_fields=FIELDS,
        status=VerdictStatus.FAILED,
        facts=Facts(fields=FIELDS),
        reading=Reading(),
        reason=FailureReason.TIMEOUT,
    )


REPLIES = st.sampled_from(["good", "bad scores", "one field", "unknown name", "garbage", "failed"])


def arrived(name: str, how: str) -> Verdict:
    """The verdict of a call that is done."""
    if how == "failed":
        return late(name)
    reply = good_reply(name, FIELDS, 0.0 if how == "bad scores" else 1.0)
    if how == "garbage" or (how == "one field" and name == CRITIQUE):
        reply = "?"
    elif how == "one field":
        loaded: dict[str, Any] = json.loads(reply)
        loaded.pop("b", None)
        reply = json.dumps(loaded)
    elif how == "unknown name" and name in AUDITS:
        reply = LISTS_UNKNOWN
    return verdict(name, FIELDS, reply)


LACKS = ("too_few_verdicts", "thin_field", "unscored_field")


@given(
    st.dictionaries(st.sampled_from(TEMPLATE_NAMES), REPLIES),
    st.none() | st.integers(1, 5),
)
def test_needs_are_met_exactly_when_routing_would_miss_nothing(
    done: dict[str, str], least: int | None
) -> None:
    """With the rest cut off: no too_few_verdicts, no thin_field, no unscored_field, and only then."""
    have = [arrived(name, how) for name, how in done.items()]
    enough = needs_are_met(needing(least), templates(), FIELDS, have)
    rest = [late(name) for name in TEMPLATE_NAMES if name not in done]
    placed = place("r", Facts(fields=FIELDS), [*have, *rest], RoutingRules(needing(least)))
    lacks = not isinstance(placed, Placement) or any(
        reason.startswith(LACKS) for reason in placed.decision.reasons
    )
    assert enough is not lacks


@given(st.lists(st.tuples(st.sampled_from(TEMPLATE_NAMES), REPLIES), max_size=8))
def test_more_verdicts_never_undo_it(done: list[tuple[str, str]]) -> None:
    """What was enough stays enough, whatever else arrives, in whatever order."""
    have = [arrived(name, how) for name, how in done]
    answers = [
        needs_are_met(needing(), templates(), FIELDS, have[:count])
        for count in range(len(have) + 1)
    ]
    assert answers == sorted(answers)
    assert needs_are_met(needing(), templates(), FIELDS, have[::-1]) is answers[-1]
