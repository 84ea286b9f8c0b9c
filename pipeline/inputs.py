"""Files that settings name, read once at submission: their contents travel, workers open none."""

from pathlib import Path

import storage
from pipeline.settings import RoutingFlags
from schemas.errors import RecordError, UsageError
from schemas.json_schema import JsonSchema, parse_schema
from schemas.policy import Policy, parse_policy
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
    return RoutingRules(policy, accept_literal_evidence=flags.accept_literal_evidence)


def read_schema(path: str | None) -> JsonSchema | None:
    """The JSON schema in a file."""
    if path is None:
        return None
    try:
        schema = parse_schema(_read("--schema", path))
    except RecordError as error:
        raise UsageError(f"--schema {path}: {error.message}") from error
    if schema is None:
        raise UsageError(f"--schema {path}: the file is empty; it must hold a JSON schema")
    return schema


def _read(flag: str, path: str) -> str:
    try:
        return storage.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {path} cannot be read: {error}") from error
