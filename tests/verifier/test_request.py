"""The body of a request: what is sent, in which form, and what is left out."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from schemas.record import Record, parse_json
from schemas.verdict import ReplyKind
from scoring.prompt import data_block
from scoring.templates import Template
from tests.support.builders import TEMPLATES, record
from verifier.request import MAX_FORMATS, USUAL_FIELDS, Dialect, RequestWriter, Structure, unusual

ONE = record({"a": 1, "b": 2})


def body_of(
    template: Template | str,
    dialect: Dialect = Dialect(),  # noqa: B008 - it is frozen
    one: Record = ONE,
    **more: Any,
) -> dict[str, Any]:
    chosen = TEMPLATES[template] if isinstance(template, str) else template
    writer = RequestWriter("m", [chosen])
    data = writer.data_message(data_block(one), one.fields)
    return dict(json.loads(writer.body(chosen, one.fields, data, dialect, **more)))


@pytest.mark.parametrize("name", TEMPLATES.names)
@pytest.mark.parametrize("structure", Structure)
def test_the_reply_format_steps_down(name: str, structure: Structure) -> None:
    """A schema, an object, nothing; a reply that is no JSON is never asked to be any."""
    body = body_of(name, Dialect(structure=structure))
    asked = body.get("response_format", {}).get("type")
    if name == "document_critique":
        assert asked is None
        return
    assert asked == {0: None, 1: "json_object", 2: "json_schema"}[structure]
    assert "JSON" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("dialect", "absent"),
    [
        (Dialect(temperature=False), {"temperature"}),
        (Dialect(limit_key=None), {"max_tokens", "max_completion_tokens"}),
        (Dialect(limit_key="max_completion_tokens"), {"max_tokens"}),
        (Dialect(structure=Structure.NONE), {"response_format"}),
    ],
)
def test_what_a_dialect_lacks_is_absent(dialect: Dialect, absent: set[str]) -> None:
    """Left out of the body, never sent as null."""
    body = body_of("fields_numeric", dialect)
    assert not absent & set(body)
    assert None not in body.values()


def test_the_schema_names_the_fields_in_their_order() -> None:
    """Each field once with explanation before score; an audit may only list fields asked about."""
    numeric = body_of("fields_numeric")["response_format"]["json_schema"]["schema"]
    assert list(numeric["properties"]) == ["a", "b"]
    assert list(numeric["properties"]["a"]["properties"]) == ["explanation", "score"]
    likert = body_of("fields_likert")["response_format"]["json_schema"]["schema"]
    rating = likert["properties"]["b"]["properties"]["confidence"]
    assert rating["enum"][0] == "Certain"
    assert len(rating["enum"]) == 5
    audit = body_of("accuracy_audit")["response_format"]["json_schema"]["schema"]
    assert list(audit["properties"]) == ["explanation", "incorrect_fields", "confidence_score"]
    finding = audit["properties"]["incorrect_fields"]["items"]["properties"]
    assert finding["field_name"]["enum"] == ["a", "b"]


def test_a_users_template_shapes_its_own_schema() -> None:
    """Words of its scale, and its own key for the score."""
    words = {"good": 1.0, "bad": 0.0}
    mine = Template(
        name="mine", reply=ReplyKind.FIELD_SCORES, scale=words, score_key="mark", text="Judge."
    )
    wanted = body_of(mine)["response_format"]["json_schema"]
    assert wanted["name"] == "mine"
    assert wanted["schema"]["properties"]["a"]["properties"]["mark"]["enum"] == ["good", "bad"]


@pytest.mark.parametrize("room", [1, 2, 3])
def test_room_multiplies_the_completion_limit(room: int) -> None:
    """Whatever the limit is called."""
    usual = body_of("fields_numeric")["max_tokens"]
    for key in ("max_tokens", "max_completion_tokens"):
        assert body_of("fields_numeric", Dialect(limit_key=key), room=room)[key] == room * usual


def test_more_fields_get_more_room() -> None:
    """A longer reply is expected, but not for the document's one score."""
    wide = record({f"field_{i}": i for i in range(30)})
    for name in TEMPLATES.names:
        more = body_of(name, one=wide)["max_tokens"] - body_of(name)["max_tokens"]
        assert (more > 0) == (name != "document_critique")


def test_many_schemas_do_not_pile_up() -> None:
    """Records that all differ in their fields: what is kept stays bounded, and right."""
    template = TEMPLATES["fields_numeric"]
    writer = RequestWriter("m", [template])
    data = writer.data_message(data_block(ONE), ONE.fields)
    for number in range(MAX_FORMATS + 5):
        body = json.loads(writer.body(template, (f"f{number}",), data, Dialect()))
        schema = body["response_format"]["json_schema"]["schema"]
        assert schema["required"] == [f"f{number}"]
    assert len(writer._formats) <= MAX_FORMATS


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        {"type": "video_url", "video_url": {"url": "u"}, "fps": 0.5},
        {"type": "file", "size": 2**70, "ratio": 1e-7},
    ],
)
def test_attachments_pass_through_as_they_came(part: Mapping[str, Any]) -> None:
    """Images and the like, with fractions and integers of any size among their settings."""
    content = [{"type": "text", "text": "Total 40.00"}, part]
    row = {"messages": [{"role": "user", "content": content}], "output": {"a": 1}}
    one = record({"a": 1}, document=None, messages=parse_json(json.dumps(row))["messages"])
    text, attachment = body_of("fields_numeric", one=one)["messages"][1]["content"]
    assert "Total 40.00" in text["text"]
    assert attachment == part


def test_text_of_every_script_is_sent_as_it_is() -> None:
    """UTF-8, nothing escaped twice."""
    text = 'Betrag 1 €\u2028"日本" \\u0041 \U0001f600'
    content = body_of("fields_numeric", one=record({"a": 1}, document=text))["messages"][1][
        "content"
    ]
    assert text in content


ODD = record({"Betrag (EUR)": 1, "番号": 2, "zeilen[]": [], "k" * 70: 3, "": 4, "plain": 5})
ALIASED = Dialect(aliases=True)
PLAIN_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@pytest.mark.parametrize("name", ["fields_numeric", "fields_likert"])
def test_unusual_names_are_sent_under_aliases(name: str) -> None:
    """Keys that every provider takes, in the fields' order, each described by the name it means."""
    schema = body_of(name, ALIASED, ODD)["response_format"]["json_schema"]["schema"]
    keys = list(schema["properties"])
    assert schema["required"] == keys
    assert all(PLAIN_KEY.fullmatch(key) for key in keys)
    assert keys[0] == "Betrag_EUR"
    assert keys[-1] == "plain"
    described = [p.get("description") for p in schema["properties"].values()]
    assert described[1] == 'The field "番号"'
    assert described[-1] is None
    assert list(
        body_of(name, Dialect(), ODD)["response_format"]["json_schema"]["schema"]["properties"]
    ) == list(ODD.fields)


def test_usual_names_are_sent_as_they_are() -> None:
    """What was learned of unusual names changes nothing for the others."""
    for name in TEMPLATES.names:
        assert body_of(name, ALIASED) == body_of(name)


def test_an_audit_names_unusual_fields_freely() -> None:
    """A list of what it may name is only sent where every provider takes it."""
    audit = body_of("accuracy_audit", ALIASED, ODD)["response_format"]["json_schema"]["schema"]
    assert audit["properties"]["incorrect_fields"]["items"]["properties"]["field_name"] == {
        "type": "string"
    }


def schemas_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from schemas_in(part)


@pytest.mark.parametrize("dialect", [Dialect(), ALIASED])
@pytest.mark.parametrize("name", [n for n in TEMPLATES.names if n != "document_critique"])
def test_every_object_is_strict(name: str, dialect: Dialect) -> None:
    """All properties required, no others allowed, at each level; nothing that strict mode lacks."""
    wanted = body_of(name, dialect, ODD)["response_format"]["json_schema"]
    assert wanted["strict"] is True
    objects = [s for s in schemas_in(wanted["schema"]) if s.get("type") == "object"]
    assert objects
    for schema in objects:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize(
    ("dialect", "parameter", "fields", "then"),
    [
        (Dialect(), "response_format", ("a",), Dialect(structure=Structure.JSON_OBJECT)),
        (Dialect(), "response_format", ("a b",), ALIASED),
        (ALIASED, "response_format", ("a b",), Dialect(Structure.JSON_OBJECT, aliases=True)),
        (Dialect(Structure.JSON_OBJECT), "response_format", ("a b",), Dialect(Structure.NONE)),
        (Dialect(Structure.NONE), "response_format", ("a b",), None),
        (Dialect(), "temperature", (), Dialect(temperature=False)),
        (Dialect(temperature=False), "temperature", (), None),
        (Dialect(), "max_tokens", (), Dialect(limit_key="max_completion_tokens")),
        (Dialect(), "max_completion_tokens", (), Dialect(limit_key=None)),
        (Dialect(limit_key="max_completion_tokens"), "max_completion_tokens", (), Dialect(limit_key=None)),
        (Dialect(limit_key="max_completion_tokens"), "max_tokens", (), Dialect(limit_key=None)),
        (Dialect(limit_key=None), "max_tokens", (), None),
        (Dialect(), "seed", (), None),
    ],
)  # fmt: skip
def test_each_refusal_takes_one_step(
    dialect: Dialect, parameter: str, fields: tuple[str, ...], then: Dialect | None
) -> None:
    """Unusual names get aliases before any structure goes; at the end there is nothing to give."""
    assert dialect.without(parameter, fields) == then


@pytest.mark.parametrize("fields", [("a",), ("a b",)])
@pytest.mark.parametrize(
    "parameter", ["response_format", "temperature", "max_tokens", "max_completion_tokens"]
)
def test_refusals_come_to_an_end(parameter: str, fields: tuple[str, ...]) -> None:
    """Whatever is refused again and again, after a few steps nothing is left."""
    dialect: Dialect | None = Dialect()
    for _ in range(4):
        dialect = dialect.without(parameter, fields) if dialect else None
    assert dialect is None


@pytest.mark.parametrize("structure", Structure)
@pytest.mark.parametrize("name", TEMPLATES.names)
def test_only_what_is_sent_can_be_refused(name: str, structure: Structure) -> None:
    """What a dialect says it sends of a template is what stands in the body."""
    for dialect in (
        Dialect(structure),
        Dialect(structure, temperature=False),
        Dialect(structure, limit_key=None),
        Dialect(structure, limit_key="max_completion_tokens"),
    ):
        body = body_of(name, dialect)
        limit = bool({"max_tokens", "max_completion_tokens"} & set(body))
        sends = [
            dialect.sends(TEMPLATES[name], p)
            for p in ("response_format", "temperature", "max_tokens")
        ]
        assert sends == ["response_format" in body, "temperature" in body, limit]


def test_what_a_provider_may_refuse_a_schema_for() -> None:
    """Names with other characters, as long as they have no aliases, and too many fields."""
    many = tuple(f"f{i}" for i in range(USUAL_FIELDS + 1))
    assert [unusual(f) for f in (("a",), ("a b",), ("",), many[1:], many)] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert [unusual(f, aliases=True) for f in (("a b",), many)] == [False, True]
