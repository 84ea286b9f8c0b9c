"""No answer is not an answer: losing replies, in part or in whole, never earns acceptance."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import AcceptRules, Policy
from schemas.reasons import Route
from schemas.verdict import Facts
from scoring.aggregate import ScoreScale
from scoring.place import Placement, Unscorable, place
from scoring.routing import RoutingRules
from tests.support.builders import TEMPLATE_NAMES, good_reply, verdicts_from_replies

GRADED = ("fields_numeric", "fields_likert")
AUDITS = ("accuracy_audit", "confidence_audit")
FIELD_NAMES = (
    "a", "total amount", "日期", "x.y", "items[0].price", "}", 'say "b"', "it's", "\\", "", "0",
    "score", "explanation", "confidence", "rating", "incorrect_fields", "field_name", "$",
)  # fmt: skip
FIELDS = st.lists(st.sampled_from(FIELD_NAMES), min_size=1, max_size=4, unique=True).map(tuple)
GARBAGE = st.sampled_from(
    ["", "{}", "[]", "null", "I cannot evaluate this.", "100", "{{{{", "<score></score>", "😀"]
)


@dataclass(frozen=True)
class Given:
    """A reply as a test made it, and what it answers by the way it was made."""

    text: str | None
    answers: bool
    fields: frozenset[str] = frozenset()


def good(name: str, fields: Sequence[str]) -> Given:
    covered = frozenset() if name == "document_critique" else frozenset(fields)
    return Given(good_reply(name, fields), True, covered)


@st.composite
def lacking(draw: st.DrawFn, name: str, fields: tuple[str, ...]) -> Given:
    """A good reply without something: entries of fields, the list, the score."""
    if name == "document_critique":
        return Given("<think>\nall is right\n</think>", False)
    reply: dict[str, Any] = json.loads(good_reply(name, fields))
    if name in GRADED:
        kept = frozenset(draw(st.sets(st.sampled_from(fields), max_size=len(fields) - 1)))
        null = draw(st.booleans())
        for field in set(fields) - kept:
            reply[field] = {"explanation": "?", "score": None, "confidence": None} if null else ""
            if draw(st.booleans()):
                del reply[field]
        return Given(json.dumps(reply), bool(kept), kept)
    if draw(st.booleans()):
        del reply["incorrect_fields"]
        return Given(json.dumps(reply), True)
    return Given(json.dumps({**reply, "incorrect_fields": ["no such field"]}), True)


@st.composite
def replies(draw: st.DrawFn, name: str, fields: tuple[str, ...]) -> Given:
    """A reply that is good, missing, cut off, garbage, or lacks something."""
    kind = draw(st.sampled_from(["good", "good", "good", "missing", "cut", "garbage", "lacking"]))
    whole = good(name, fields)
    match kind:
        case "good":
            return whole
        case "missing":
            return Given(None, False)
        case "cut":
            text = whole.text or ""
            return Given(text[: draw(st.integers(0, len(text) - 1))], False)
        case "garbage":
            return Given(draw(GARBAGE), False)
        case _:
            return draw(lacking(name, fields))


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, Given]]:
    fields = draw(FIELDS)
    return fields, {name: draw(replies(name, fields)) for name in TEMPLATE_NAMES}


@given(case=cases(), needed=st.none() | st.integers(1, 5))
def test_acceptance_needs_verdicts_a_rating_and_an_audit(
    case: tuple[tuple[str, ...], dict[str, Given]], needed: int | None
) -> None:
    """Computed from how the replies were made, not from how they were read."""
    fields, made = case
    given = verdicts_from_replies(fields, {name: reply.text for name, reply in made.items()})
    rules = RoutingRules(Policy(accept=AcceptRules(min_verdicts=needed)))
    placed = place("r", Facts(fields), given, rules)
    answered = sum(reply.answers for reply in made.values())
    if isinstance(placed, Unscorable):
        assert answered == 0
        return
    assert placed.scores.n_verdicts == answered
    if placed.decision.route is Route.AUTO_ACCEPT:
        assert answered >= (3 if needed is None else needed)
        for field in fields:
            assert any(field in made[name].fields for name in GRADED)
            assert any(field in made[name].fields for name in AUDITS)
    else:
        assert placed.decision.reasons


@given(fields=FIELDS)
def test_nothing_lost_is_accepted(fields: tuple[str, ...]) -> None:
    """Whatever the fields are called, five good replies are five good replies."""
    given = verdicts_from_replies(fields, {n: good_reply(n, fields) for n in TEMPLATE_NAMES})
    placed = place("r", Facts(fields), given, RoutingRules(Policy()))
    assert isinstance(placed, Placement)
    assert placed.decision.reasons == ()


SCORES = st.integers(-5, 120) | st.floats() | st.sampled_from(["Certain", "uncertain", "70%", None])


@st.composite
def scored_replies(draw: st.DrawFn, name: str, fields: tuple[str, ...]) -> str | None:
    """A reply of the right form with any scores, some of them none."""
    if draw(st.booleans()) and draw(st.booleans()):
        return None
    if name == "document_critique":
        return f"<think>x</think><score>{draw(SCORES)}</score>"
    key = {"fields_numeric": "score", "fields_likert": "confidence", "accuracy_audit": "confidence_score", "confidence_audit": "rating"}[name]  # fmt: skip
    if name in GRADED:
        return json.dumps({f: {"explanation": "x", key: draw(SCORES)} for f in fields})
    listed = draw(st.lists(st.sampled_from([*fields, "zz"]), max_size=3))
    return json.dumps({"explanation": "x", "incorrect_fields": listed, key: draw(SCORES)})


@given(data=st.data(), fields=FIELDS, scale=st.sampled_from(ScoreScale))
def test_scores_are_between_0_and_1(
    data: st.DataObject, fields: tuple[str, ...], scale: ScoreScale
) -> None:
    """Whatever the replies say; never NaN, and null only where nothing was said."""
    texts = {name: data.draw(scored_replies(name, fields)) for name in TEMPLATE_NAMES}
    given = verdicts_from_replies(fields, texts)
    placed = place("r", Facts(fields), given, RoutingRules(Policy()), scale)
    if isinstance(placed, Unscorable):
        return
    scores = placed.scores
    assert [f.field for f in scores.fields] == list(fields)
    for score in (scores.score, *(f.score for f in scores.fields), *scores.signals.values()):
        assert score is None or (0 <= score <= 1 and not math.isnan(score))
    for field in scores.fields:
        assert (field.score is None) == (field.graded + field.audits == 0)
    assert (scores.score is None) == (not scores.signals)
    json.dumps(scores.signals, allow_nan=False)
