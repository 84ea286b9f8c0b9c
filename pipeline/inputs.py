"""Files that settings name, read once at submission: their contents travel, workers open none."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

import storage
from pipeline.settings import InputFlags, RoutingFlags
from schemas.columns import parse_columns
from schemas.errors import RecordError, UsageError
from schemas.json_rows import parse_carry
from schemas.json_schema import JsonSchema, parse_schema
from schemas.policy import Policy, parse_policy
from schemas.source import Source
from scoring.routing import RoutingRules
from scoring.templates import TemplateSet, builtin_templates, load_templates


def read_templates(folder: str | None) -> TemplateSet:
    """The built-in templates, changed by those in `folder`."""
    return load_templates(Path(folder)) if folder else builtin_templates()


def read_rules(flags: RoutingFlags) -> RoutingRules:
    """The routing rules that the flags name."""
    policy = Policy()
    if flags.policy is not None:
        policy = parse_policy(_read("--policy", flags.policy), f"--policy {flags.policy}")
    return RoutingRules(policy, flags.shadow, flags.accept_literal_evidence)


def read_source(flags: InputFlags) -> Source:
    """What the flags say of the input."""
    return Source(
        schema=pa.schema([]),
        renames=parse_columns(flags.columns),
        carry=parse_carry(flags.carry),
        default_schema=read_schema(flags.schema_),
        document_from=flags.document_from,
    )


def read_schema(where: str | None) -> JsonSchema | None:
    """The JSON schema in a file, or that of a Pydantic model named `module:Model`."""
    if where is None:
        return None
    named = re.fullmatch(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)", where)
    value = _model_schema(where, *named.groups()) if named else _read("--schema", where)
    try:
        schema = parse_schema(value)
    except RecordError as error:
        raise UsageError(f"--schema {where}: {error.message}") from error
    if schema is None:
        raise UsageError(f"--schema {where}: the file is empty; it must hold a JSON schema")
    return schema


def _model_schema(where: str, module: str, name: str) -> dict[str, Any]:
    """The schema of a model in a module of the working folder or of the environment."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        model = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--schema {where} cannot be imported: {error}") from error
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise UsageError(f"--schema {where} is no Pydantic model")
    return model.model_json_schema()


def _read(flag: str, path: str) -> str:
    try:
        return storage.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {path} cannot be read: {error}") from error
