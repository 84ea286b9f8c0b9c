"""Scoring verified records: verdicts to scores, evidence and a decision."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from schemas.dead_letter import DeadLetter
from schemas.scored import ScoredRecord
from scoring.aggregate import ScoreScale
from scoring.routing import RoutingRules
from transforms.read import DEAD_LETTERS, DeadTag
from verifier.record_verifier import Verified
from verifier.score import score_verified


class ScoreRecords(beam.PTransform):
    """Records with verdicts to scored records with a decision.

    Input: PCollection of Verified. Output: `scored` (ScoredRecord) and `dead_letters`
    (DeadLetter) for records without any verdict.
    """

    def __init__(
        self,
        rules: RoutingRules,
        scale: ScoreScale = ScoreScale.RESCALED,
        label: str | None = None,
    ) -> None:
        super().__init__(label)
        self._rules = rules
        self._scale = scale

    def display_data(self) -> dict[str, Any]:
        """The policy's version and the score scale."""
        return {"policy_version": self._rules.policy.version, "score_scale": self._scale.value}

    def expand(self, pcoll: beam.PCollection[Verified]) -> Any:
        """Wire the DoFn."""
        outputs = pcoll | "Score" >> beam.ParDo(Score(self._rules, self._scale)).with_outputs(
            DEAD_LETTERS, main="scored"
        )
        return {"scored": outputs["scored"], DEAD_LETTERS: outputs[DEAD_LETTERS]}


class Score(beam.DoFn):
    """One verified record to its place."""

    def __init__(self, rules: RoutingRules, scale: ScoreScale) -> None:
        self._rules = rules
        self._scale = scale

    def process(self, verified: Verified) -> Iterator[ScoredRecord | DeadTag]:
        """Yield the scored record, or its dead letter."""
        result = score_verified(verified, self._rules, self._scale)
        if isinstance(result, DeadLetter):
            yield TaggedOutput(DEAD_LETTERS, result)
        else:
            yield result
