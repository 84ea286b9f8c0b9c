"""Command-line flags made from a settings model, so that there is one list of both."""

import argparse
import difflib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from schemas.errors import UsageError

M = TypeVar("M", bound=BaseModel)


class _StoreOnce(argparse.Action):
    """Stores a value; the same flag twice is a contradiction, not an update."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if self.dest in vars(namespace):
            parser.error(f"{option_string} was given twice")
        setattr(namespace, self.dest, values)


def add_flags(
    parser: argparse.ArgumentParser, model: type[BaseModel], positional: Sequence[str] = ()
) -> None:
    """A flag for each field of `model`, the needed ones first; descriptions are the help.

    Those in `positional` are given without a flag's name.
    """
    fields = sorted(model.model_fields.items(), key=lambda item: not item[1].is_required())
    for name, field in fields:
        if name in positional:
            parser.add_argument(name, metavar=name.upper(), help=field.description)
        else:
            _add_flag(parser, field.alias or name, field)


def _add_flag(parser: argparse.ArgumentParser, name: str, field: FieldInfo) -> None:
    help_text = (field.description or "").replace("%", "%%")
    if field.annotation is bool:
        parser.add_argument(
            f"--{name}", action="store_true", default=argparse.SUPPRESS, help=help_text
        )
        return
    if field.is_required():
        help_text += " (needed)"
    elif field.default is not None:
        help_text += f" (default: {_plain(field.default)})"
    parser.add_argument(
        f"--{name}",
        action=_StoreOnce,
        default=argparse.SUPPRESS,
        choices=_choices(field.annotation),
        metavar=None if _choices(field.annotation) else name.upper(),
        help=help_text,
    )


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _choices(annotation: Any) -> list[str] | None:
    kinds = [annotation, *get_args(annotation)]
    enums = [k for k in kinds if isinstance(k, type) and issubclass(k, Enum)]
    return [str(member.value) for member in enums[0]] if enums else None


def settings_from(model: type[M], values: argparse.Namespace) -> M:
    """The validated settings among `values`. Raises UsageError that names the flags."""
    names = {field.alias or name for name, field in model.model_fields.items()}
    given = {name: value for name, value in vars(values).items() if name in names}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise UsageError("; ".join(_explain(item, given) for item in error.errors())) from error


def _explain(item: Any, given: dict[str, Any]) -> str:
    flag = f"--{'.'.join(map(str, item['loc']))}" if item["loc"] else "flags"
    if item["type"] == "missing":
        return f"{flag} is needed"
    shown = f" {given[item['loc'][0]]}" if item["loc"] and item["loc"][0] in given else ""
    return f"{flag}{shown}: {item['msg']}"


def refuse_unknown(unknown: Sequence[str], known: Iterable[str]) -> None:
    """Raise UsageError for the first of `unknown`, with the nearest flag in `known`."""
    names = list(known)
    for argument in unknown:
        name = argument.split("=", 1)[0]
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument: {argument}")
        nearest = difflib.get_close_matches(name.replace("-", "_").replace("__", "--", 1), names, 1)
        hint = f"; did you mean {nearest[0]}?" if nearest else "; see --help"
        raise UsageError(f"unknown flag {name}{hint}")


def flag_names(parser: argparse.ArgumentParser) -> list[str]:
    """The long flags that `parser` knows."""
    return [o for action in parser._actions for o in action.option_strings if o.startswith("--")]
