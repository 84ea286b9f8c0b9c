"""Arrow values as JSON, without loss.

Decimals keep their digits, dates and timestamps become ISO 8601 (nanoseconds included), binary
becomes text where it is UTF-8 and base64 elsewhere, NaN and the infinities become null.
"""

import base64
import json
import math
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def json_values(array: pa.Array) -> list[Any]:
    """The values of an Arrow array as what `dump_json` takes."""
    for matches, convert in _CONVERTERS:
        if matches(array.type):
            return convert(array)
    return list(array.to_pylist())


def row_values(batch: pa.RecordBatch) -> dict[str, Any]:
    """The first row of `batch` as a mapping of JSON values."""
    return {name: json_values(batch.column(name))[0] for name in batch.schema.names}


def dump_json(value: Any) -> str:
    """Compact JSON text; Decimals keep their digits, integers may have any size."""
    try:
        return orjson.dumps(value, default=_fragment).decode("utf-8")
    except TypeError:
        return _dump_any(value)


def _fragment(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value)) if value.is_finite() else None
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _dump_any(value: Any) -> str:
    """What orjson refuses: integers over 64 bits and lone surrogates."""
    if isinstance(value, dict):
        items = (
            f"{json.dumps(str(k), ensure_ascii=False)}:{_dump_any(v)}" for k, v in value.items()
        )
        return "{" + ",".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump_any, value)) + "]"
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return json.dumps(value, ensure_ascii=False)


def _keep_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [v if ok else None for v, ok in zip(values, array.is_valid().to_pylist(), strict=True)]


def _struct(array: pa.Array) -> list[Any]:
    names = [f.name for f in array.type]
    columns = [json_values(c) for c in array.flatten()]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return _keep_nulls(array, rows or [{} for _ in range(len(array))])


def _list(array: pa.Array) -> list[Any]:
    values = json_values(array.flatten())
    lengths = array.value_lengths().to_pylist()
    out: list[Any] = []
    start = 0
    for length in lengths:
        out.append(None if length is None else values[start : start + length])
        start += length or 0
    return out


def _map(array: pa.Array) -> list[Any]:
    """Offsets, keys and items are those of the whole array, also where `array` is a slice."""
    offsets = array.offsets.to_pylist() or [0]
    first, last = offsets[0], offsets[-1]
    keys, items = (json_values(part[first:last]) for part in (array.keys, array.items))
    rows: list[Any] = []
    for start, stop in pairwise(offsets):
        span = slice(start - first, stop - first)
        rows.append({_key(k): v for k, v in zip(keys[span], items[span], strict=True)})
    return _keep_nulls(array, rows)


def _key(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value)


def _binary(array: pa.Array) -> list[Any]:
    return [None if v is None else _text(v) for v in array.to_pylist()]


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def _temporal(array: pa.Array) -> list[Any]:
    return list(array.cast(pa.string()).to_pylist())


def _timestamp(array: pa.Array) -> list[Any]:
    return [None if v is None else _iso(v) for v in array.cast(pa.string()).to_pylist()]


def _iso(text: str) -> str:
    """Arrow's `2024-03-01 10:30:00+0100` as `2024-03-01T10:30:00+01:00`."""
    text = text.replace(" ", "T", 1)
    if len(text) > 5 and text[-5] in "+-" and text[-4:].isdigit() and ":" in text:
        text = f"{text[:-2]}:{text[-2:]}"
    return text


_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _duration(array: pa.Array) -> list[Any]:
    digits = _UNITS[array.type.unit]
    return [
        None if n is None else f"PT{Decimal(n).scaleb(-digits):f}S"
        for n in array.cast(pa.int64()).to_pylist()
    ]


def _float(array: pa.Array) -> list[Any]:
    return [v if v is not None and math.isfinite(v) else None for v in array.to_pylist()]


def _decoded(array: pa.Array) -> list[Any]:
    return json_values(array.dictionary_decode())


def _run_ends(array: pa.Array) -> list[Any]:
    return json_values(pc.run_end_decode(array))


def _extension(array: pa.Array) -> list[Any]:
    """UUIDs as text and booleans as booleans; the values of other extension types as stored."""
    if array.type.extension_name not in {"arrow.uuid", "arrow.bool8"}:
        return json_values(array.storage)
    return [v if v is None or isinstance(v, bool) else str(v) for v in array.to_pylist()]


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _is_any_list(kind: pa.DataType) -> bool:
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def _is_any_binary(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
        or pt.is_binary_view(kind)
    )


_CONVERTERS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]]] = [
    (pt.is_struct, _struct),
    (pt.is_map, _map),
    (_is_any_list, _list),
    (pt.is_dictionary, _decoded),
    (pt.is_run_end_encoded, _run_ends),
    (_is_extension, _extension),
    (_is_any_binary, _binary),
    (pt.is_timestamp, _timestamp),
    (pt.is_date, _temporal),
    (pt.is_time, _temporal),
    (pt.is_duration, _duration),
    (pt.is_floating, _float),
]
