"""Verifier templates as data: loading a set and checking it."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from schemas.errors import UsageError
from schemas.policy import explain
from schemas.verdict import ReplyKind

AUDIT_FLAGGED = 0.1
AUDIT_CLEAR = 0.9
"""The field signals of an audit: listed as incorrect, or not (alpha and beta of the method)."""

Signal = Annotated[float, Field(ge=0, le=1)]


class Template(BaseModel):
    """One verifier prompt: what it asks, in which form it is answered, on which scale.

    `scale` is the highest number of a scale from 0, or the words of a rating with the signal
    that each stands for. `score_key` is the reply's key for the score. `text` says what to
    judge; the data sections and the reply format are added by `scoring.prompt`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    reply: ReplyKind
    scale: Annotated[int, Field(ge=1)] | dict[str, Signal]
    score_key: str = "score"
    text: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.reply is not ReplyKind.FIELD_SCORES and isinstance(self.scale, dict):
            raise ValueError("a scale of words needs reply: field_scores")
        if self.score_key in {"explanation", "incorrect_fields", "field_name"}:
            raise ValueError(f"score_key cannot be {self.score_key}: the reply uses that key")
        return self


class TemplateSet(BaseModel):
    """The templates of a run, in order of name."""

    model_config = ConfigDict(frozen=True)

    templates: tuple[Template, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The templates' names, in order."""
        return tuple(t.name for t in self.templates)

    def __getitem__(self, name: str) -> Template:
        return next(t for t in self.templates if t.name == name)


def builtin_templates() -> TemplateSet:
    """The five templates of the method."""
    folder = resources.files("scoring") / "templates"
    return _build({f.name: f.read_text("utf-8") for f in folder.iterdir()}, {})


def load_templates(folder: Path) -> TemplateSet:
    """The built-in templates, changed by the `*.yaml` files in `folder`.

    A file whose `name` is a built-in's replaces that one, another name is added, and a file of
    just `name` and `enabled: false` takes one out. Raises UsageError that names the file.
    """
    if not folder.is_dir():
        raise UsageError(f"--templates {folder}: no such folder")
    texts = {str(f): f.read_text("utf-8") for f in sorted(folder.glob("*.yaml"))}
    if not texts:
        raise UsageError(f"--templates {folder}: holds no *.yaml file")
    return _build(texts, {t.name: t for t in builtin_templates().templates})


def _build(texts: Mapping[str, str], base: Mapping[str, Template]) -> TemplateSet:
    chosen = dict(base)
    for source, text in texts.items():
        data = _mapping(text, source)
        if data.pop("enabled", True) is False:
            if chosen.pop(str(data.get("name")), None) is None:
                raise UsageError(f"{source} disables {data.get('name')!r}, which is no template")
            continue
        template = _template(data, source)
        chosen[template.name] = template
    if not chosen:
        raise UsageError("no template is left: enable at least one")
    return TemplateSet(templates=tuple(chosen[name] for name in sorted(chosen)))


def _mapping(text: str, source: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{source} is not YAML: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{source} must hold a mapping with name, reply, scale and text")
    return data


def _template(data: Mapping[str, Any], source: str) -> Template:
    try:
        return Template.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{source} is not a valid template: {explain(error)}") from error
