"""The whole component as one transform."""

from typing import Any

import apache_beam as beam

from schemas.record import Record
from scoring.aggregate import ScoreScale
from scoring.routing import RoutingRules
from scoring.templates import TemplateSet
from transforms.read import DEAD_LETTERS
from transforms.route import RouteRecords
from transforms.score import ScoreRecords
from transforms.verify import VerifyRecords
from verifier.settings import VerifierSettings


class VerifyScoreRoute(beam.PTransform):
    """Records to scored records by route.

    Input: PCollection of Record. Output: `auto_accept` and `human_review` (ScoredRecord),
    `dead_letters` (DeadLetter), and `verified` (Verified) for a verdict log. Every record is in
    exactly one of the first three.
    """

    def __init__(
        self,
        settings: VerifierSettings,
        templates: TemplateSet,
        rules: RoutingRules,
        scale: ScoreScale = ScoreScale.RESCALED,
        label: str | None = None,
    ) -> None:
        super().__init__(label)
        self._settings = settings
        self._templates = templates
        self._rules = rules
        self._scale = scale

    def expand(self, pcoll: beam.PCollection[Record]) -> Any:
        """Wire verify, score and route."""
        verified = pcoll | VerifyRecords(self._settings, self._templates, self._rules.policy)
        scored = verified["verified"] | ScoreRecords(self._rules, self._scale)
        routed = scored["scored"] | RouteRecords()
        dead = (verified[DEAD_LETTERS], scored[DEAD_LETTERS]) | "DeadLetters" >> beam.Flatten()
        return {**routed, DEAD_LETTERS: dead, "verified": verified["verified"]}
