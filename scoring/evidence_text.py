"""Strings in text: verbatim at the edges of words, as the same words, or nearly."""

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rapidfuzz import fuzz

from scoring.evidence_places import Span

WORDWISE = 256
"""Texts of more words are looked for by their first and last words, so that it stays linear."""
EDGE = 48
"""How many words at each end of such a text are looked for."""
MAX_INSIDE = 1000
"""So many places that cut words are passed over before a verbatim search gives up."""

_LETTERS = r"[^\W\d_]+"
_OTHERS = r"(?:(?<!\w)[-−])?\d+(?:[.,]\d+)*|[<>≤≥≠±](?=\s?[\d.])"
_WORD = re.compile(f"{_LETTERS}|{_OTHERS}")
_FOLDED = re.compile(r"-?\d+(?:[.,]\d+)*|[^\d\s]+")
_SIGNS = "-−"
_OPENS_DECIMAL = "<>=≤≥~($€£-−"


class Near(NamedTuple):
    """A span like the wanted text, and how like it is, in [0, 1]."""

    span: Span
    similarity: float


def verbatim(text: str, wanted: str) -> Iterator[tuple[Span, bool]]:
    """Where `wanted` stands in `text`, and whether it stands apart from its neighbours.

    Places where it is a part of a longer word or number are left out.
    """
    start, inside = text.find(wanted), 0
    while start >= 0 and inside < MAX_INSIDE:
        end = start + len(wanted)
        if cuts(text, start) or cuts(text, end) or _takes_dash(text, start):
            inside += 1
        else:
            apart = not _touches(text, start) and not _touches(text, end)
            inside += not apart
            yield (start, end), apart
        start = text.find(wanted, start + 1)


def cuts(text: str, position: int) -> bool:
    """Whether a boundary at `position` would cut a letter, a word or a number in two."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if _is_mark(after) or "\u200d" in (before, after):
        return True
    if before.isdigit():
        return after.isdigit() or (after in ".," and text[position + 1 : position + 2].isdigit())
    if after.isdigit():
        return before in ".," and _is_decimal_mark(text, position - 1)
    return _is_cased(before) and _is_cased(after)


def _is_decimal_mark(text: str, position: int) -> bool:
    """Whether a mark before a digit makes a decimal of it: `3.5`, `p<.05`, but not `No.5`."""
    before = text[position - 1] if position else " "
    if before.isdigit():
        return True
    return text[position] == "." and (before.isspace() or before in _OPENS_DECIMAL)


def _is_mark(char: str) -> bool:
    """Whether a character belongs to the one before it: an accent, a vowel sign."""
    return char > "\u02ff" and unicodedata.category(char)[0] == "M"


def _is_cased(char: str) -> bool:
    """Whether a letter is of a script with upper and lower case, which writes words apart."""
    return char.lower() != char.upper()


def _takes_dash(text: str, start: int) -> bool:
    """Whether a sign at `start` is the dash of `10-20`."""
    return (
        text[start] in _SIGNS
        and text[start + 1 : start + 2].isdigit()
        and start > 0
        and text[start - 1].isalnum()
    )


def _touches(text: str, position: int) -> bool:
    """Whether letters, figures or a sign go on across `position`."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if before in _SIGNS and after.isdigit():
        return True
    return (before.isalnum() or before == "_") and (after.isalnum() or after == "_")


class Words:
    """The words of a text, folded: neither case, spacing, punctuation nor Unicode form count.

    Figures keep their sign and decimal marks, and comparisons stay: `3.5` is not `3-5`.
    """

    def __init__(self, text: str) -> None:
        folded: list[str] = []
        self._starts = array("q")
        self._ends = array("q")
        for match in _pattern(text).finditer(text):
            start, end = match.span()
            for word in _fold(match[0]):
                folded.append(word)
                self._starts.append(start)
                self._ends.append(end)
        self._joined = f" {' '.join(folded)} "

    def find(self, wanted: Sequence[str]) -> Span | None:
        """The span of the same words in the same order, the first that is no part of a code."""
        needle = f" {' '.join(wanted)} "
        at, counted, first = self._joined.find(needle), 0, 0
        for _ in range(MAX_INSIDE if wanted else 0):
            if at < 0:
                break
            first += self._joined.count(" ", counted, at)
            counted = at
            if not self._is_glued(first) and not self._is_glued(first + len(wanted)):
                return self._span(first, first + len(wanted))
            at = self._joined.find(needle, at + 1)
        return None

    def _is_glued(self, index: int) -> bool:
        """Whether nothing stands between a word and the one before it, as in `RX12`."""
        return 0 < index < len(self._starts) and self._starts[index] <= self._ends[index - 1]

    def find_near(self, wanted: Sequence[str], cutoff: float) -> Near | None:
        """The span of nearly the same words in nearly the same order.

        At least the share `cutoff` of them must be the very same. Of more than WORDWISE words the
        beginning and the end are looked for, and then what stands between is compared.
        """
        words = self._joined.split()
        if len(wanted) > WORDWISE:
            found = _align_ends(wanted, words, cutoff)
        else:
            found = _align(wanted, words, cutoff)
        return None if found is None else Near(self._span(found.first, found.last), found.score)

    def _span(self, first: int, last: int) -> Span:
        """The span in the text of the words from `first` up to `last`, which is not included."""
        return self._starts[first], self._ends[last - 1]


class _Stretch(NamedTuple):
    """Words from `first` up to `last`, and how like the wanted ones they are, in [0, 1]."""

    first: int
    last: int
    score: float


def _align_ends(wanted: Sequence[str], words: Sequence[str], cutoff: float) -> _Stretch | None:
    head = _align(wanted[:EDGE], words, cutoff)
    if head is None:
        return None
    reach = head.first + len(wanted) + len(wanted) // 4
    tail = _align(wanted[-EDGE:], words[head.last : reach], cutoff)
    if tail is None:
        return None
    last = head.last + tail.last
    score = fuzz.ratio(wanted, words[head.first : last], score_cutoff=100 * cutoff)
    return _Stretch(head.first, last, score / 100) if score else None


def _align(wanted: Sequence[str], words: Sequence[str], cutoff: float) -> _Stretch | None:
    """The stretch of `words` that is most like `wanted`."""
    if not wanted or len(wanted) > len(words):
        return None
    found = fuzz.partial_ratio_alignment(wanted, words, score_cutoff=100 * cutoff)
    if found is None or found.dest_start >= found.dest_end:
        return None
    return _Stretch(found.dest_start, found.dest_end, found.score / 100)


def folded_words(text: str) -> list[str]:
    """The words of `text`, as `Words` has them."""
    return [word for found in _pattern(text).findall(text) for word in _fold(found)]


def _pattern(text: str) -> re.Pattern[str]:
    """What a word is; accents and vowel signs that `text` writes as marks belong to it."""
    if text.isascii():
        return _WORD
    marks = re.escape("".join(sorted(filter(_is_mark, set(text)))))
    if not marks:
        return _WORD
    return re.compile(rf"{_LETTERS}(?:[{marks}]+(?:{_LETTERS})?)*|{_OTHERS}")


def _fold(word: str) -> list[str]:
    """A word without case and in one Unicode form, which can make several of it."""
    if word.isascii():
        return [word.lower()]
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    return _FOLDED.findall(folded.replace("−", "-"))


def lowered(text: str) -> str:
    """`text` in lower case, character for character."""
    return text.replace("İ", "i").lower()


def near(text: str, text_lowered: str, wanted: str, cutoff: float) -> Near | None:
    """The span of `text` most like the characters of `wanted`, widened to whole words."""
    needle = lowered(wanted)
    found = fuzz.partial_ratio_alignment(needle, text_lowered, score_cutoff=100 * cutoff)
    if found is None or found.dest_end <= found.dest_start:
        return None
    start, end = _whole_words(text, found.dest_start, found.dest_end, len(wanted))
    score = fuzz.ratio(needle, text_lowered[start:end], score_cutoff=100 * cutoff)
    return Near((start, end), score / 100) if score else None


def _whole_words(text: str, start: int, end: int, most: int) -> Span:
    """The span without blanks at its ends, and with the rest of words that it cuts.

    The rest of a word is at most `most` characters.
    """
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    first, last = max(0, start - most), min(len(text), end + most)
    while start > first and (cuts(text, start) or _joins_digit(text, start)):
        start -= 1
    while end < last and (cuts(text, end) or _joins_digit(text, end)):
        end += 1
    return start, end


def _joins_digit(text: str, position: int) -> bool:
    """Whether a letter and a digit meet at `position`, as in `RX12`."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    return before.isalnum() and after.isalnum() and before.isdigit() != after.isdigit()
