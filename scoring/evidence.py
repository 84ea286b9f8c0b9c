"""Where a document supports a value: exactly, but for form, as a number, a date, or nearly."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import accumulate

from rapidfuzz import fuzz

from schemas.evidence import NO_EVIDENCE, Evidence, EvidenceKind
from scoring.quantities import Span, date_values, dates_in, number_values, numbers_in

FUZZY_CUTOFF = 85.0
FUZZY_MIN_LENGTH = 5
FUZZY_MAX_LENGTH = 300
FUZZY_MAX_DOCUMENT = 200_000
"""Beyond this many characters a document is not searched for near matches: it would be slow."""

_WORD = re.compile(r"[\w\u0300-\u036f]+")


class Document:
    """A text in which values are looked for; its indexes are made once, when first needed."""

    def __init__(self, text: str, message_index: int = 0) -> None:
        self.text = text
        self.message_index = message_index

    def find(self, value: object) -> Evidence:
        """The best evidence for `value`, of kind NONE where there is none.

        For a list or an object it is that of its least supported leaf; null, empty values and
        booleans have none.
        """
        if isinstance(value, str):
            return self._find_text(value)
        if isinstance(value, bool) or value is None:
            return NO_EVIDENCE
        if isinstance(value, int | float | Decimal):
            return self._find_number(value)
        leaves = [self.find(leaf) for leaf in _leaves(value)]
        return min(leaves, key=lambda e: e.similarity, default=NO_EVIDENCE)

    def _find_text(self, value: str) -> Evidence:
        wanted = value.strip()
        if not wanted:
            return NO_EVIDENCE
        span = self._exact(wanted)
        if span is not None:
            return self._evidence(EvidenceKind.EXACT, span)
        numbers = number_values(wanted)
        if numbers:
            return self._first(EvidenceKind.NUMBER, (self._numbers.get(n) for n in numbers))
        days = date_values(wanted)
        if days:
            return self._first(EvidenceKind.DATE, (self._dates.get(d) for d in days))
        span = self._normalised(wanted)
        if span is not None:
            return self._evidence(EvidenceKind.NORMALISED, span)
        return self._fuzzy(wanted)

    def _find_number(self, value: float | Decimal) -> Evidence:
        span = self._exact(str(value))
        if span is not None:
            return self._evidence(EvidenceKind.EXACT, span)
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        return self._first(EvidenceKind.NUMBER, [self._numbers.get(number)])

    def _exact(self, wanted: str) -> Span | None:
        """The first place where `wanted` stands and is no part of a longer word or number."""
        start = self.text.find(wanted)
        while start >= 0:
            end = start + len(wanted)
            if not self._cuts(start) and not self._cuts(end):
                return start, end
            start = self.text.find(wanted, start + 1)
        return None

    def _cuts(self, position: int) -> bool:
        """Whether a boundary at `position` would cut a word or a number in two."""
        if not 0 < position < len(self.text):
            return False
        before, after = self.text[position - 1], self.text[position]
        if unicodedata.combining(after):
            return True
        if before.isdigit() and after.isdigit():
            return True
        if before in ".," and after.isdigit():
            return position > 1 and self.text[position - 2].isdigit()
        if before.isdigit() and after in ".,":
            return self.text[position + 1 : position + 2].isdigit()
        return _is_cased(before) and _is_cased(after)

    @cached_property
    def _words(self) -> tuple[str, list[int], list[Span]]:
        """The words, folded and joined by spaces; where each starts there, and in the text."""
        matches = list(_WORD.finditer(self.text))
        words = [_fold(m[0]) for m in matches]
        starts = list(accumulate((len(w) + 1 for w in words), initial=1))
        return f" {' '.join(words)} ", starts, [m.span() for m in matches]

    def _normalised(self, wanted: str) -> Span | None:
        """The same words, whatever their case, spacing, punctuation or Unicode form."""
        words = [_fold(w) for w in _WORD.findall(wanted)]
        if not words:
            return None
        folded, starts, spans = self._words
        needle = f" {' '.join(words)} "
        at = folded.find(needle)
        if at < 0:
            return None
        first = bisect_right(starts, at + 1) - 1
        last = bisect_right(starts, at + len(needle) - 2) - 1
        return spans[first][0], spans[last][1]

    @cached_property
    def _numbers(self) -> dict[Decimal, Span]:
        found: dict[Decimal, Span] = {}
        for span, values in numbers_in(self.text):
            for value in values:
                found.setdefault(value, span)
        return found

    @cached_property
    def _dates(self) -> dict[date, Span]:
        found: dict[date, Span] = {}
        for span, values in dates_in(self.text):
            for value in values:
                found.setdefault(value, span)
        return found

    @cached_property
    def _lowered(self) -> str:
        lowered = self.text.lower()
        return lowered if len(lowered) == len(self.text) else self.text

    def _fuzzy(self, wanted: str) -> Evidence:
        """Nearly the same text; its digits must be the very same: a near number is a mistake."""
        if not FUZZY_MIN_LENGTH <= len(wanted) <= min(FUZZY_MAX_LENGTH, len(self.text)):
            return NO_EVIDENCE
        if len(self.text) > FUZZY_MAX_DOCUMENT:
            return NO_EVIDENCE
        needle = wanted.lower() if len(wanted.lower()) == len(wanted) else wanted
        match = fuzz.partial_ratio_alignment(needle, self._lowered, score_cutoff=FUZZY_CUTOFF)
        if match is None or match.dest_end <= match.dest_start:
            return NO_EVIDENCE
        start, end = self._whole_words(match.dest_start, match.dest_end)
        similarity = fuzz.ratio(needle, self._lowered[start:end])
        if similarity < FUZZY_CUTOFF or _digits(self.text[start:end]) != _digits(wanted):
            return NO_EVIDENCE
        return self._evidence(EvidenceKind.FUZZY, (start, end), similarity / 100)

    def _whole_words(self, start: int, end: int) -> Span:
        """The span without blanks at its ends, and with the rest of words that it cuts."""
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        while start > 0 and self._cuts(start):
            start -= 1
        while end < len(self.text) and self._cuts(end):
            end += 1
        return start, end

    def _first(self, kind: EvidenceKind, spans: Iterable[Span | None]) -> Evidence:
        found = [span for span in spans if span is not None]
        return self._evidence(kind, min(found)) if found else NO_EVIDENCE

    def _evidence(self, kind: EvidenceKind, span: Span, similarity: float = 1.0) -> Evidence:
        start, end = span
        return Evidence(kind, self.message_index, start, end, self.text[start:end], similarity)


def _leaves(value: object) -> Iterable[object]:
    """What a list or an object holds that is not empty."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if item is not None and item not in ("", [], {})]


def _is_cased(char: str) -> bool:
    """Whether a letter is of a script with upper and lower case, which writes words apart."""
    return char.lower() != char.upper()


def _fold(word: str) -> str:
    return word.casefold() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())
