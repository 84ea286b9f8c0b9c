"""Characters that hide text: unseen ones, and those that only look like plain letters."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_FORMATS = (
    "\u00ad\u034f\u0640\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef"
)
UNSEEN = _FORMATS + _MARKS
"""What a reader does not see, or only as an accent: ranges for a class of a regular expression."""

_COMPOSED = (
    "\u00a0-\u024f\u0370-\u052f\u1d00-\u1dbf\u1e00-\u1fff\u2000-\u200a\u2024-\u202f\u205f"
    "\u2070-\u209c\u2100-\u218b\u2460-\u24ea\ufb00-\ufb06\ufe50-\ufe6b\uff01-\uff60"
    "\U0001d400-\U0001d7ff\U0001f100-\U0001f149"
)
"""Where Unicode itself says which plain characters a character is made of."""

_BOXED = (0x1F150, 0x1F170, 0x1F1E6)
"""The first of 26 letters in circles, squares and as regional indicators, each."""

_LOOKALIKES = {
    "a": "аαɑᴀ",
    "b": "вβʙᏏ",
    "c": "сϲᴄ",
    "d": "ԁᴅđ",
    "e": "еεᴇ",
    "f": "ꜰ",
    "g": "ɡɢց",
    "h": "һнհʜħ",
    "i": "іιıɩɪ",
    "j": "јϳյᴊ",
    "k": "кκᴋ",
    "l": "ӏʟł",
    "m": "мᴍ",
    "n": "ηոռɴ",
    "o": "оοօᴏø",
    "p": "рρᴘ",
    "q": "ԛզ",
    "r": "гʀ",
    "s": "ѕςꜱ",
    "t": "тτᴛŧ",
    "u": "υμսʋᴜ",
    "v": "νѵᴠ",
    "w": "ԝωᴡ",
    "x": "хχ",
    "y": "уγүʏ",
    "z": "ᴢ",
    "_": "‿⁀▁",
    "/": "⁄∕⧸╱",
    "<": "‹˂ᐸ⟨❮\u2329\u3008",
    ">": "›˃ᐳ⟩❯\u232a\u3009",
    "|": "ǀ∣❘",
    "\n": "\u2028\u2029",
}


def _characters(ranges: str) -> Iterator[str]:
    for first, last in re.findall("(.)(?:-(.))?", ranges):
        for code in range(ord(first), ord(last or first) + 1):
            yield chr(code)


def _table() -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    alike = {ord(c): plain for plain, chars in _LOOKALIKES.items() for c in chars}
    unseen = dict.fromkeys(map(ord, _characters(UNSEEN)))
    for char in _characters(_COMPOSED):
        parts = unicodedata.normalize("NFKD", char).translate(unseen).lower()
        plain = parts.translate(alike)
        if plain not in (char, ""):
            table[ord(char)] = plain
    boxed = {first + i: chr(ord("a") + i) for first in _BOXED for i in range(26)}
    return {**table, **boxed, **alike, **unseen}


_TABLE = _table()
_FOLDED = {chr(code): plain or "" for code, plain in _TABLE.items()}
_FOLDED_CHARACTERS = frozenset(_FOLDED)
_FEW = 32


def fold(text: str) -> str:
    """`text` as it reads: in lower case and plain letters, without accents and unseen characters.

    Letters of other scripts that look like Latin ones become those: the result is for comparing
    with words that were folded, too. Line breaks stay. O(n).
    """
    text = text.lower()
    found = _FOLDED_CHARACTERS.intersection(text)
    if len(found) > _FEW:
        return text.translate(_TABLE)
    for char in found:
        text = text.replace(char, _FOLDED[char])
    return text


def origins(text: str) -> list[int]:
    """For each character of `fold(text)`, the index in `text` of what it was made of."""
    return [i for i, char in enumerate(text) for _ in fold(char)]


def lookalikes(plain: str) -> str:
    """All characters that `fold` turns into the character `plain`, in either case, and itself."""
    found = {chr(code) for code, to in _TABLE.items() if to == plain} | {plain}
    return "".join(sorted({form for c in found for form in (c, c.upper()) if len(form) == 1}))


_SELECTOR = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_ZERO_WIDTH = "\u180e\u200b-\u200f\u2060-\u2064\u206a-\u206f\ufeff"
_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
_SOME = re.compile(f"[\u202d\u202e{_ZERO_WIDTH}{_SELECTOR}\U000e0000-\U000e007f]")
_HIDDEN = re.compile(
    f"{_FLAG}|(?P<tags>[\U000e0000-\U000e007f]+)|(?P<selectors>[{_SELECTOR}]{{3,}})"
    f"|(?P<bits>[{_ZERO_WIDTH}]{{16,}})"
)
# Forced against the direction in which the letters run by themselves.
_FORCED = re.compile("\u202e[^\u202c\n]{0,40}?[A-Za-zА-я]{2}|\u202d[^\u202c\n]{0,40}?[א-ي]{2}")
_LONGEST_PERIOD = 4


class Hidden(NamedTuple):
    """Characters `start` to `end` that hide something: `text` is what, as far as it can be read."""

    start: int
    end: int
    text: str


def hidden_text(text: str) -> Iterator[Hidden]:
    """Where unseen characters carry data; their ordinary uses are left out.

    Ordinary are flags of regions (tag characters), a variation selector or two after a character,
    joiners in emoji and in scripts that need them, and runs of the same zero-width characters again
    and again, with which e-mails pad their preview.
    """
    if text.isascii() or not _SOME.search(text):
        return
    for match in _HIDDEN.finditer(text):
        kind, run = match.lastgroup, match[0]
        if kind == "tags":
            yield Hidden(*match.span(), "".join(chr(ord(c) - 0xE0000) for c in run))
        elif kind == "selectors":
            yield Hidden(*match.span(), bytes(map(_byte, run)).decode("utf-8", "replace"))
        elif kind == "bits" and not _repeats(run):
            yield Hidden(*match.span(), f"{len(run)} zero-width characters")


def reordered_text(text: str) -> re.Match[str] | None:
    """The first place where letters are shown in another order than they stand in."""
    return None if text.isascii() else _FORCED.search(text)


def without_hidden(text: str) -> str:
    """`text` with one U+FFFD in place of each run of characters that hides something."""
    parts: list[str] = []
    done = 0
    for hidden in hidden_text(text):
        parts += text[done : hidden.start], "\ufffd"
        done = hidden.end
    return "".join((*parts, text[done:])) if parts else text


def printable(text: str, length: int) -> str:
    """At most `length` characters of `text`, all of them visible: breaks become blanks."""
    start = text[: 4 * length].translate(_WITHOUT_UNSEEN)[:length]
    return "".join([c if c.isprintable() else " " for c in start]).strip()


_WITHOUT_UNSEEN = dict.fromkeys(map(ord, _characters(_FORMATS)))


def _byte(selector: str) -> int:
    code = ord(selector)
    return code - 0xFE00 if code < 0xE0000 else code - 0xE0100 + 16


def _repeats(run: str) -> bool:
    return any(run[period:] == run[:-period] for period in range(1, _LONGEST_PERIOD + 1))
