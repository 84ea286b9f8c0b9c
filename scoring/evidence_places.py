"""Places in a text where something stands, with what it may mean there."""

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

Span = tuple[int, int]
"""Start and end in code points; the end is not included."""

T = TypeVar("T")


class Found(NamedTuple, Generic[T]):
    """A number or a date in a text: its span, its plain readings, and its doubtful ones."""

    span: Span
    plain: frozenset[T]
    doubtful: frozenset[T]


def first_places(found: Iterable[Found[T]]) -> dict[T, Span]:
    """The first place of each meaning; one where it is plain comes before a doubtful one."""
    plain: dict[T, Span] = {}
    doubtful: dict[T, Span] = {}
    for span, sure, unsure in found:
        for meaning in sure:
            plain.setdefault(meaning, span)
        for meaning in unsure:
            doubtful.setdefault(meaning, span)
    return doubtful | plain
