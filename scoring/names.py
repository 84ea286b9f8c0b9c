"""Field names as verifiers spell them, matched to the fields they were asked about."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property

from schemas.record import WHOLE_OUTPUT

_SEPARATORS = re.compile(r"[\s_\-.]+")


class FieldNames:
    """Matches spelled names to `fields`: exactly, else by unique loose match.

    A loose match minds neither case, spacing, underscores nor Unicode normal form, and counts
    only when it points at exactly one field.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = frozenset(fields)

    @cached_property
    def _loose(self) -> dict[str, set[str]]:
        loose: dict[str, set[str]] = {}
        for field in self._fields:
            loose.setdefault(_loosen(field), set()).add(field)
        return loose

    def match(self, name: str) -> str | None:
        """The field that `name` means, or None."""
        if name in self._fields:
            return name
        found = self._loose.get(_loosen(name), set())
        return next(iter(found)) if len(found) == 1 else None

    def match_path(self, name: str) -> str | None:
        """Like `match`, then the one field whose path `name` leads into or out of.

        `address.city` and `items[0].price` mean the fields `address` and `items`; where the
        fields are paths themselves, `city` means `address.city`. The whole output as one field
        holds every path.
        """
        if self._fields == {WHOLE_OUTPUT}:
            return WHOLE_OUTPUT
        found = self.match(name)
        if found is not None:
            return found
        wanted = _steps(name)
        inside = {f for f in self._fields if _contains(wanted, _steps(f))}
        return next(iter(inside)) if len(inside) == 1 else None


def _loosen(name: str) -> str:
    return _SEPARATORS.sub("", unicodedata.normalize("NFC", name).casefold())


def _steps(path: str) -> tuple[str, ...]:
    steps = re.split(r"(?<!\\)[.\[\]/]+", path)
    return tuple(_loosen(s) for s in steps if s and not s.isdigit() and s != "$")


def _contains(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one path starts with the other, or the field's path ends with the name."""
    if not one or not other:
        return False
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared] or other[-len(one) :] == one
