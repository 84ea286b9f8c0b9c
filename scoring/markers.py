"""The markers of a prompt's sections and of a chat's messages, however a document spells them.

Only their opening bracket is replaced, by one that opens nothing: the text stays readable.
"""

import re

from scoring.invisible import UNSEEN, lookalikes

HARMLESS_BRACKET = "‹"

_ESCAPES = r"&#0*+{0};?|&#[xX]0*+{0:x};?|\\u00{0:02x}|\\x{0:02x}|%{0:02x}"
_UNSEEN_ENTITIES = (
    r"&(?:shy|zwj|zwnj|lrm|rlm|nbsp|ZeroWidthSpace|NoBreak);"
    r"|&#0*+(?:32|160|173|820[3-7]|8288|65279);?|&#x0*+(?:20|a0|ad|200[b-f]|2060|feff);?"
)
_GAP = rf"(?:[\s{UNSEEN}]|(?i:{_UNSEEN_ENTITIES}))*+"


def _spelled(char: str) -> str:
    """A regex for one character: plain, a lookalike, or escaped as in HTML, JSON or a URL."""
    codes = {ord(char), ord(char.upper())}
    escapes = [_ESCAPES.format(code) for code in codes]
    class_ = f"[{re.escape(lookalikes(char) + _MORE.get(char, ''))}]"
    return f"(?:{class_}|(?i:{'|'.join(escapes)}))"


_MORE = {"u": "уцμ", "/": "\\\\"}
_BRACKETS = re.escape(lookalikes("<").replace(HARMLESS_BRACKET, ""))
# One class first, then what it was: regular expressions scan for a class at great speed.
_OPEN = (
    rf"[{_BRACKETS}&\\%](?:(?<=[{_BRACKETS}])"
    r"|(?<=&)(?i:(?:amp;)*+(?:lt\b|#0*+60|#x0*+3c);?)|(?<=\\)(?i:u003c|x3c)|(?<=%)3[cC])"
)
_NAME = _GAP.join(map(_spelled, "untrusted"))
_SLASH = rf"(?:(?:{_spelled('/')}|&sol;){_GAP}){{0,3}}"
_SECTION = f"{_GAP}{_SLASH}{_NAME}"
_CHAT = (
    rf"[|{re.escape(lookalikes('|'))}][^\s<>|]{{1,40}}[{re.escape(lookalikes('|'))}]"
    rf"|(?:start|end)_of_turn>|<\s?/?SYS>|/?(?:s|bos|eos)>"
)
_MARKER = re.compile(rf"{_OPEN}(?={_SECTION}|{_CHAT})|\[(?=/?INST\])")
_SECTION_MARKER = re.compile(rf"{_OPEN}{_SECTION}")

_STARTS = re.compile(rf"[{_BRACKETS}&\\%\[]")
_SIGNS = (
    *("untrusted", "|>", "_turn>", "inst]", "sys>", "<s>", "</s>", "os>"),
    *("&#", "\\u00", "\\x", "%"),
)


def neutralise_markers(text: str) -> str:
    """`text` with the opening bracket of anything like a marker made harmless. O(n)."""
    return _MARKER.sub(HARMLESS_BRACKET, text) if _may_mark(text) else text


def section_marker(text: str) -> re.Match[str] | None:
    """The first section marker in `text`, in any spelling."""
    return _SECTION_MARKER.search(text) if _may_mark(text) else None


def _may_mark(text: str) -> bool:
    """Whether `text` has an opening bracket and, where spelling is plain, a part of a marker."""
    if not _STARTS.search(text):
        return False
    lowered = text.lower()
    return not text.isascii() or any(sign in lowered for sign in _SIGNS)
