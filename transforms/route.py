"""Routing scored records: a Beam Partition on a decision that was made by plain functions."""

from typing import Any

import apache_beam as beam

from schemas.reasons import Route
from schemas.scored import ScoredRecord

_ROUTES = (Route.AUTO_ACCEPT, Route.HUMAN_REVIEW)


class RouteRecords(beam.PTransform):
    """Scored records to one PCollection for each route: `auto_accept` and `human_review`."""

    def expand(self, pcoll: beam.PCollection[ScoredRecord]) -> Any:
        """Wire the partition."""
        parts = pcoll | "ByRoute" >> beam.Partition(_index, len(_ROUTES))
        return {route.value: part for route, part in zip(_ROUTES, parts, strict=True)}


def _index(scored: ScoredRecord, _count: int) -> int:
    return _ROUTES.index(scored.decision.route)
