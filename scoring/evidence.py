"""Where a document supports a value: verbatim, but for form, as a number, a date, or nearly."""

from collections.abc import Iterable, Iterator
from datetime import date, time
from decimal import Decimal
from functools import cached_property

from schemas.evidence import NO_EVIDENCE, Evidence, EvidenceKind
from scoring.evidence_dates import Moment, date_value, dates_in, times_in
from scoring.evidence_figures import same_figures
from scoring.evidence_numbers import number_values, numbers_in
from scoring.evidence_places import Span, first_places
from scoring.evidence_text import Words, folded_words, lowered, near, verbatim

FUZZY_CUTOFF = 0.85
FUZZY_MIN_LENGTH = 5
BY_CHARACTERS = 64
BY_CHARACTERS_AT_MOST = 300
BY_CHARACTERS_COST = 60_000_000
"""Near matches are looked for by characters up to a length of 64, where that is linear; up to 300
while the two lengths multiplied stay below this cost; else by words."""
LONGEST_NUMBER = 400
"""No document spells a number with more digits than this."""

_RANK = {kind: rank for rank, kind in enumerate(EvidenceKind)}


class Document:
    """A text in which values are looked for; its indexes are made once, when first needed."""

    def __init__(self, text: str, message_index: int = 0) -> None:
        self.text = text
        self.message_index = message_index

    def find(self, value: object) -> Evidence:
        """The best evidence for `value`, of kind NONE where there is none.

        For a list or an object it is that of its least supported leaf. Empty leaves need none;
        booleans, which no document spells out, have none and do not count among other leaves.
        """
        if not isinstance(value, list | tuple | dict):
            return self._find_scalar(value)
        weakest = NO_EVIDENCE
        for leaf in leaves(value):
            if isinstance(leaf, bool):
                continue
            evidence = self._find_scalar(leaf)
            if evidence.kind is EvidenceKind.NONE:
                return evidence
            if weakest is NO_EVIDENCE or _support(evidence) < _support(weakest):
                weakest = evidence
        return weakest

    def _find_scalar(self, value: object) -> Evidence:
        if isinstance(value, str):
            return self._find_text(value.strip()) or NO_EVIDENCE
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            number = Decimal(value if isinstance(value, int) else str(value))
            return self._find_number(number) or NO_EVIDENCE
        return NO_EVIDENCE

    def _find_text(self, wanted: str) -> Evidence | None:
        if not wanted:
            return None
        apart, touching = self._verbatim(wanted)
        if apart is not None:
            return apart
        numbers, moment = number_values(wanted), date_value(wanted)
        found = self._number(wanted, numbers) or self._date(moment) or touching
        if found is not None:
            return found
        if numbers or moment.days:
            return self._same_words(wanted) if _is_figures(wanted) else None
        return self._same_words(wanted) or self._nearly(wanted)

    def _find_number(self, number: Decimal) -> Evidence | None:
        if not number.is_finite() or abs(number.adjusted()) > LONGEST_NUMBER:
            return None
        written = format(number, "f")
        apart, touching = self._verbatim(written)
        return apart or self._number(written, [number]) or touching

    def _verbatim(self, wanted: str) -> tuple[Evidence | None, Evidence | None]:
        """The first place apart from other words; and the first that touches one, as in `RX12`."""
        touching: Span | None = None
        for span, apart in verbatim(self.text, wanted):
            if apart:
                return self._evidence(EvidenceKind.EXACT, span), None
            touching = touching or span
        return None, touching and self._evidence(EvidenceKind.EXACT, touching)

    def _number(self, written: str, values: Iterable[Decimal]) -> Evidence | None:
        spans = [self._numbers[value] for value in values if value in self._numbers]
        if not spans:
            return None
        start, end = min(spans)
        same = self.text[start:end] == written
        return self._evidence(EvidenceKind.EXACT if same else EvidenceKind.NUMBER, (start, end))

    def _date(self, moment: Moment) -> Evidence | None:
        """The date, if the time of day that goes with it stands in the document, too."""
        spans = [self._dates[day] for day in moment.days if day in self._dates]
        if not spans or (moment.clock is not None and moment.clock not in self._times):
            return None
        return self._evidence(EvidenceKind.DATE, min(spans))

    def _same_words(self, wanted: str) -> Evidence | None:
        """The same words, unless there is but one letter: `O+` is not `O-`."""
        if sum(c.isalnum() for c in wanted) < min(2, len(wanted)):
            return None
        span = self._words.find(folded_words(wanted))
        if span is None:
            return None
        same = self.text[slice(*span)] == wanted
        return self._evidence(EvidenceKind.EXACT if same else EvidenceKind.NORMALISED, span)

    def _nearly(self, wanted: str) -> Evidence | None:
        """Nearly the same text; a near number, code or date in it is a mistake, not evidence."""
        length = len(wanted)
        if length < FUZZY_MIN_LENGTH:
            return None
        cost = length * len(self.text)
        if length <= BY_CHARACTERS or (
            length <= BY_CHARACTERS_AT_MOST and cost <= BY_CHARACTERS_COST
        ):
            found = near(self.text, self._lowered, wanted, FUZZY_CUTOFF)
        else:
            found = self._words.find_near(folded_words(wanted), FUZZY_CUTOFF)
        if found is None or not same_figures(wanted, self.text[slice(*found.span)]):
            return None
        kind = EvidenceKind.NORMALISED if found.similarity == 1 else EvidenceKind.FUZZY
        return self._evidence(kind, found.span, found.similarity)

    @cached_property
    def _words(self) -> Words:
        return Words(self.text)

    @cached_property
    def _numbers(self) -> dict[Decimal, Span]:
        return first_places(numbers_in(self.text))

    @cached_property
    def _dates(self) -> dict[date, Span]:
        return first_places(dates_in(self.text))

    @cached_property
    def _times(self) -> frozenset[time]:
        return frozenset(times_in(self.text))

    @cached_property
    def _lowered(self) -> str:
        return lowered(self.text)

    def _evidence(self, kind: EvidenceKind, span: Span, similarity: float = 1.0) -> Evidence:
        start, end = span
        return Evidence(kind, self.message_index, start, end, self.text[start:end], similarity)


def leaves(value: object) -> Iterator[object]:
    """The scalars in lists and objects, however deep, in order; null and blank text left out."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, list | tuple):
            pending.extend(reversed(item))
        elif item is not None and not (isinstance(item, str) and not item.strip()):
            yield item


def _support(evidence: Evidence) -> tuple[int, float]:
    return -_RANK[evidence.kind], evidence.similarity


def _is_figures(text: str) -> bool:
    """Whether a text is groups of digits, as in a telephone number."""
    return all(part.isdigit() for part in text.split(" "))
