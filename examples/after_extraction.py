"""The component inside another pipeline, right after its extraction step.

  python examples/after_extraction.py

The extraction is a regular expression here, where yours would call an LLM.
"""

import re

import apache_beam as beam

from schemas.dead_letter import DeadLetter
from schemas.parse_record import parse_record
from schemas.policy import Policy
from schemas.record import Record
from schemas.scored import ScoredRecord
from scoring.routing import RoutingRules
from scoring.templates import builtin_templates
from transforms.composite import VerifyScoreRoute
from verifier.settings import VerifierSettings

LETTERS = (
    "Ann Okoro orders 12 chairs for Leeds.",
    "Please send 3 desks to Turin. Regards, Bo Lind",
)


def extract(letter: str) -> Record:
    """An order from a letter, as a record to score."""
    quantity, item = re.search(r"(\d+) (\w+)", letter).groups()  # type: ignore[union-attr]
    output = {"quantity": int(quantity), "item": item, "express": None}
    return parse_record(
        {"document": letter, "instructions": "Extract the order.", "output": output}
    )


def line(placed: ScoredRecord | DeadLetter) -> str:
    """What to print of a placed record."""
    if isinstance(placed, DeadLetter):
        return f"lost: {placed.message}"
    return f"{placed.route.value} {placed.trustworthiness_score:.2f} {placed.record.document}"


def run(verifier: str = "embedded") -> None:
    """Extract, verify, score, route."""
    rules = RoutingRules(Policy(), accept_literal_evidence=True)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        records = pipeline | beam.Create(LETTERS) | "Extract" >> beam.Map(extract)
        placed = records | "Trust" >> VerifyScoreRoute(
            VerifierSettings(target=verifier), builtin_templates(), rules
        )
        for name in ("auto_accept", "human_review", "dead_letters"):
            _ = placed[name] | f"Line/{name}" >> beam.Map(line) | f"Print/{name}" >> beam.Map(print)


if __name__ == "__main__":
    run()
