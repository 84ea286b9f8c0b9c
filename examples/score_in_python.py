"""Scoring single records from Python, in the cells of a notebook: no Beam, no files.

  python examples/score_in_python.py

It uses the embedded verifier; put `openai:gpt-4.1-mini` or a base URL in its place.
"""

# %% A model for the structured output, and what an LLM made of a document.
from pydantic import BaseModel

from verifier.scorer import Scorer


class Invoice(BaseModel):
    """The structured output that was asked for."""

    vendor: str
    total: float
    due: str | None


document = "Kestrel Paper Ltd, invoice 2291. Amount due: 1,480.00 GBP by 30 June 2025."
extracted = Invoice(vendor="Kestrel Paper Ltd", total=1840.0, due="2025-06-30")

# %% One call, five verifier prompts behind it.
scorer = Scorer("embedded")
scored = scorer.score_sync(document=document, output=extracted, response_format=Invoice)
print(f"{scored.trustworthiness_score:.2f}  {scored.trustworthiness_explanation}")

# %% Which field is it?
for name, field in scored.per_field_scores.items():
    print(f"{field.score:.2f}  {name}: {field.explanation}")

# %% And what would become of it?
print(scored.route.value, *scored.decision.reasons)
