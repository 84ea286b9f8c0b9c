"""Text written in another way than it is meant: in base64, entities, spaced or turned letters."""

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

from scoring.order_words import LEET_DROP, REVERSED, ROTATED

SHORTEST = 24
"""So many characters a block of base64, hexadecimal or percent-encoded text has at least."""

_BLOCK = re.compile(
    rf"[A-Za-z0-9+/%_-]{{{SHORTEST},}}+(?:\r?\n[A-Za-z0-9+/_-]{{4,}}+(?=={{0,2}}\r?$))*",
    re.MULTILINE,
)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){12,}")
_BREAKS = re.compile(r"[\r\n]+")
_BASE64URL = str.maketrans("-_", "+/")

_ENTITY = re.compile(r"&(?:#|lt|gt|amp;)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:u00|x)([0-9a-fA-F]{2})")
_SPACED = re.compile(r"(?<![^\W_])[^\W_]([\s._*|/-])[^\W_](?:\1[^\W_](?![^\W_]))+")
_LONG_SPACED = re.compile(rf"{_SPACED.pattern[:-1]}{{3,}}")
_GAP = re.compile(r"[\W_]")
_RUN_ON = re.compile(
    r"(ignore|disregard|forget|override)\w{0,20}"
    r"(previous|prior|above|all|your)\w{0,20}(instruction|prompt|rules|guideline)"
)
_LETTERS = frozenset("gf")
"""Letters of spaced orders (ignore, disregard, forget, field) that seldom stand alone."""
_LEET = str.maketrans("013457", "oieast")
_MIXED = re.compile(r"\w+")

WANTED = LEET_DROP | REVERSED | ROTATED | _LETTERS
"""The words that ask for another reading of a text."""


def has_escapes(text: str) -> bool:
    """Whether `unescaped` may change `text`."""
    return "\\" in text or ("&" in text and _ENTITY.search(text) is not None)


def unescaped(text: str) -> str:
    """`text` with escapes of HTML and JSON replaced by what they stand for."""
    if not has_escapes(text):
        return text
    read = html.unescape(html.unescape(text))
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), read)


def blocks(text: str) -> Iterator[str]:
    """What blocks of base64, hexadecimal and percent-encoded text say, where they are text."""
    for match in _BLOCK.finditer(text):
        block = _BREAKS.sub("", match[0])
        if "%" in block:
            yield unquote(block)
            continue
        digits = _HEX.search(block)
        if digits:
            yield from _text(binascii.unhexlify(digits[0]))
        yield from _base64(block)


def _base64(block: str) -> Iterator[str]:
    """A prefix that ran into the block shifts it: all four beginnings are tried."""
    plain = block.translate(_BASE64URL).replace("%", "")
    for start in range(4):
        rest = plain[start:]
        rest = rest[:-1] if len(rest) % 4 == 1 else rest
        yield from _text(base64.b64decode(rest + "=" * (-len(rest) % 4)))


def _text(data: bytes) -> Iterator[str]:
    try:
        yield data.decode("utf-8")
    except UnicodeDecodeError:
        return


def readings(folded: str, words: frozenset[str]) -> Iterator[str]:
    """Other readings of a text that holds `words` of WANTED."""
    if not words.isdisjoint(LEET_DROP):
        yield _MIXED.sub(_unleet, folded)
    if not words.isdisjoint(REVERSED):
        yield folded[::-1]
    if not words.isdisjoint(ROTATED):
        yield codecs.encode(folded, "rot13")
    if not words.isdisjoint(_LETTERS):
        yield from _unspaced(folded)


def _unleet(match: re.Match[str]) -> str:
    word = match[0]
    return word if word.isdecimal() else word.translate(_LEET)


def _unspaced(folded: str) -> Iterator[str]:
    """The text with letters that stand apart put together, if there is a word of such letters."""
    if _LONG_SPACED.search(folded):
        joined = _SPACED.sub(lambda match: _GAP.sub("", match[0]), folded)
        yield joined
        yield _RUN_ON.sub(r" \1 \2 \3 ", joined)
