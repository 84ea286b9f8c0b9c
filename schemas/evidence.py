"""Where a document supports a value."""

from enum import StrEnum

from msgspec import Struct


class EvidenceKind(StrEnum):
    """How the document's text matches the value."""

    EXACT = "exact"
    NORMALISED = "normalised"
    NUMBER = "number"
    DATE = "date"
    FUZZY = "fuzzy"
    NONE = "none"


class Evidence(Struct, frozen=True):
    """The place in a record's request that supports one field value.

    `start` and `end` are offsets in Unicode code points into the text of the message
    `message_index`, and `text` is exactly that slice. All four are None for kind NONE.
    `similarity` is in [0, 1]: 1 for an exact, normalised, number or date match.
    """

    kind: EvidenceKind
    message_index: int | None = None
    start: int | None = None
    end: int | None = None
    text: str | None = None
    similarity: float = 0.0


NO_EVIDENCE = Evidence(EvidenceKind.NONE)
