"""Scores equal to those of the public reference implementation, on its own reply sets."""

import json
from pathlib import Path

import pytest

from scoring.aggregate import aggregate
from tests.support.builders import verdicts_from_replies

PEER_SCORES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "peer_scores.jsonl"


@pytest.mark.skipif(not PEER_SCORES.exists(), reason=f"{PEER_SCORES} is not here")
def test_scores_and_explanations_match_the_peer() -> None:
    """All 200 sets: document and field scores to 1e-9, field explanations to the letter."""
    sets = [json.loads(line) for line in PEER_SCORES.read_text("utf-8").splitlines()]
    assert len(sets) == 200
    for case in sets:
        fields = tuple(case["output"])
        scores = aggregate(fields, verdicts_from_replies(fields, case["replies"]))
        peer = case["peer"]
        assert scores.score == pytest.approx(peer["trust_score"], abs=1e-9)
        for field in scores.fields:
            expected = peer["fields"][field.field]
            assert field.score == pytest.approx(expected["score"], abs=1e-9)
            assert field.explanation == expected["explanation"]
