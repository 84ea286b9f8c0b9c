"""Text in a record that is meant for the judge: orders, forged replies, markers, hidden text.

A first line of defence only: such text can be worded so that no pattern sees it. What is
recognised, and how reliably, is told in docs/injection.md.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schemas.record import Record
from scoring import encoded, injection_patterns, orders
from scoring.invisible import fold, hidden_text, origins, printable, reordered_text
from scoring.markers import section_marker

EXCERPT = 80
"""So many characters of a finding are quoted."""
LONGEST_PATH = 4 * EXCERPT
MAX_FINDINGS = 20
"""So many findings are told of a record."""

_OPERATORS_ROLES = frozenset({"system", "developer"})
_WORDED = frozenset({"order", "address"})
"""Kinds that the operator's own instructions may look like."""


class Finding(NamedTuple):
    """What was recognised: its kind, its text, and its line, from 1; of encoded text, none."""

    kind: str
    text: str
    line: int | None


def instruction_like_text(record: Record) -> tuple[str, ...]:
    """Where the record addresses the judge: `document line 3, order: "the text"`.

    Looked at are all messages of the request and all keys and texts of the output. In system
    messages that are not the document, which are the operator's own words, orders are no
    finding. At most MAX_FINDINGS; each quotes at most EXCERPT printable characters.
    """
    notes = {
        (place, found.kind): f'{place}, {found.kind}: "{printable(found.text, EXCERPT)}"'
        for place, found in [*_in_messages(record), *_in_output(record)][::-1]
    }
    return tuple(list(notes.values())[::-1][:MAX_FINDINGS])


def _in_messages(record: Record) -> Iterator[tuple[str, Finding]]:
    document = record.document_index
    for index, message in enumerate(record.messages):
        own = index != document and message.role in _OPERATORS_ROLES
        for found in findings(message.text):
            if not (own and found.kind in _WORDED):
                place = "document" if index == document else f"message {index}"
                yield f"{place} line {found.line}" if found.line else place, found


def _in_output(record: Record) -> Iterator[tuple[str, Finding]]:
    if is_quiet(record.output_text):
        return
    schema = record.json_schema.text if record.json_schema else ""
    for path, text, is_key in _texts(record.output, "output"):
        place = printable(path, EXCERPT) + (" (key)" if is_key else "")
        for found in findings(text):
            if not (is_key and f'"{text}"' in schema):
                yield place, found


def _texts(value: object, path: str) -> Iterator[tuple[str, str, bool]]:
    """All keys and texts with their paths, and whether each is a key."""
    if isinstance(value, str):
        yield path, value, False
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = f"{path}.{key[:EXCERPT]}"[:LONGEST_PATH]
            yield inner, key, True
            yield from _texts(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")


def findings(text: str) -> Iterable[Finding]:
    """What in `text` is meant for a judge. O(n), and cheap where no word of an attack occurs."""
    return () if is_quiet(text) else _findings(text)


def is_quiet(text: str) -> bool:
    """Whether nothing can be found in `text`, by a look that takes little time."""
    if not text.isascii() or encoded.has_escapes(text):
        return False
    data = text.encode()
    return _WANTED_BYTES.isdisjoint(data.translate(_TO_WORDS).split()) and not _has_block(data)


def _findings(text: str) -> Iterator[Finding]:
    beyond_ascii = not text.isascii()
    if beyond_ascii:
        yield from _as_spelled(text)
    shown = encoded.unescaped(text)
    read, words = _read(shown)
    yield from _as_read(shown, read, words, beyond_ascii)
    for reading in _other_readings(text, read, words):
        shown = encoded.unescaped(reading)
        for found in _as_read(shown, *_read(shown), not reading.isascii()):
            yield Finding(f"encoded {found.kind}", found.text, None)


def _as_spelled(text: str) -> Iterator[Finding]:
    """What shows only in the text as it is spelled."""
    hidden = next(hidden_text(text), None)
    if hidden:
        yield Finding("hidden text", hidden.text, _line(text, hidden.start))
    for kind, match in (
        ("reordered text", reordered_text(text)),
        ("section marker", section_marker(text)),
    ):
        if match:
            excerpt = text[match.start() : match.start() + EXCERPT]
            yield Finding(kind, excerpt, _line(text, match.start()))


def _read(shown: str) -> tuple[str, frozenset[str]]:
    """A text folded, and its words that orders, patterns or encodings ask for."""
    read = shown.lower() if shown.isascii() else fold(shown)
    words = read.encode("utf-8", "surrogatepass").translate(_TO_WORDS).split()
    return read, frozenset([_WANTED[word] for word in _WANTED_BYTES.intersection(words)])


def _as_read(shown: str, read: str, words: frozenset[str], beyond_ascii: bool) -> Iterator[Finding]:
    """What shows in a text as it reads: `read` is `shown` folded."""
    places = list(_places(read, words, beyond_ascii))
    if not places:
        return
    origin = range(len(read)) if shown.isascii() else origins(shown)
    for kind, start, end in places:
        first, last = origin[start], origin[end - 1] + 1
        yield Finding(kind, shown[first:last], _line(shown, first))


def _places(read: str, words: frozenset[str], beyond_ascii: bool) -> Iterator[tuple[str, int, int]]:
    """The kinds of what is found, and where it stands."""
    if words:
        for start, end in orders.orders(read, words):
            yield "order", start, end
    patterns = [p for p in injection_patterns.PATTERNS if not words.isdisjoint(p.words)]
    if beyond_ascii:
        patterns += [
            p
            for p in injection_patterns.PATTERNS_BEYOND_ASCII
            if any(part in read for part in p.parts)
        ]
    for pattern in patterns:
        match = pattern.regex.search(read)
        if match:
            yield pattern.kind, *match.span()


def _other_readings(text: str, read: str, words: frozenset[str]) -> Iterator[str]:
    if _has_block(text.encode("utf-8", "surrogatepass")):
        yield from encoded.blocks(text)
    if not words.isdisjoint(encoded.WANTED):
        yield from encoded.readings(read, words)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _byte_table(kept: str, become: str, beyond_ascii: int | None) -> bytes:
    """A table for `bytes.translate`: ASCII that is not kept becomes a blank."""
    known = {ord(a): ord(b) for a, b in zip(kept, become, strict=True)}
    rest = [32 if i < 128 else beyond_ascii or i for i in range(256)]
    return bytes(known.get(i, rest[i]) for i in range(256))


_WORD_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_BLOCK_CHARACTERS = _WORD_CHARACTERS + "+/%-"
_TO_WORDS = _byte_table(_WORD_CHARACTERS, _WORD_CHARACTERS.lower(), None)
_TO_BLOCKS = _byte_table(_BLOCK_CHARACTERS, "x" * len(_BLOCK_CHARACTERS), ord(" "))
_BLOCK = b"x" * encoded.SHORTEST
_WANTED = {
    word.encode(): word for word in orders.WANTED | injection_patterns.WANTED | encoded.WANTED
}
_WANTED_BYTES = frozenset(_WANTED)


def _has_block(data: bytes) -> bool:
    return _BLOCK in data.translate(_TO_BLOCKS)
