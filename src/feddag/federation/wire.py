"""Tasks and answers as bytes: a JSON header, and the arrays behind it as they are. Nothing is ever unpickled.

| bytes   | what                                                                                    |
|---------|-----------------------------------------------------------------------------------------|
| 8       | `feddag-2`                                                                              |
| 4       | the length of the header, little-endian                                                 |
| so many | the header: what the message says, and each array's name, dtype and shape               |
| rest    | the arrays' numbers in this order, rows first, little-endian, with nothing between them |

Whoever sends, nothing is believed: any bytes give a whole task or answer, or a `FeddagError`.
"""

from __future__ import annotations

import json
import math
import re
from reprlib import repr as shown
from typing import Any

import numpy as np

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation.protocol import Answer, Arrays, Task

MOST_BYTES = 2**30
"""The most bytes of a message. The largest, Gram matrices for many variables, take some hundred megabytes."""
MOST_HEADER_BYTES = 2**20

_MAGIC = b"feddag-2"
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("float64", "float32", "int64", "int8", "uint8", "bool")}
_MOST_DIMENSIONS = 8
_WHOLE = 2**53
"""Below, a whole number is the same in every JSON reader."""
_TASK_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}(\.[a-z0-9-]{1,40}){0,3}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_]{1,40}(/[A-Za-z0-9_]{1,40}){0,7}", re.ASCII)
_KEYS = {
    "task": {"kind", "name", "round", "numbers", "participants", "arrays"},
    "answer": {"kind", "weight", "arrays"},
}


def encode_task(task: Task) -> bytes:
    """Write a task. Whether every site must answer stays with the server: each side knows it from the declaration."""
    numbers = {name: _finite(f"the number {name!r}", value) for name, value in task.numbers.items()}
    header = {
        "kind": "task",
        "name": task.name,
        "round": int(task.round),
        "numbers": numbers,
        "participants": [int(site) for site in task.participants],
    }
    return _encoded(header, task.arrays)


def decode_task(message: bytes, limit: int = MOST_BYTES) -> Task:
    """Read a task, or refuse the bytes."""
    header, arrays = _decoded("task", message, limit)
    _must(_matches(_TASK_NAME, header["name"]), f"its name is {shown(header['name'])}")
    _must(_is_whole(header["round"]), f"its round is {shown(header['round'])}")
    numbers, participants = header["numbers"], header["participants"]
    _must(isinstance(numbers, dict) and all(_matches(_NAME, name) for name in numbers), "its numbers have no names")
    _must(isinstance(participants, list) and all(map(_is_whole, participants)), "its participants are no positions")
    _must(len(set(participants)) == len(participants), "a participant is named twice")
    return Task(
        name=header["name"],
        round=header["round"],
        numbers={name: _finite(f"the number {name!r}", value) for name, value in numbers.items()},
        arrays=arrays,
        participants=tuple(participants),
    )


def encode_answer(answer: Answer) -> bytes:
    """Write an answer."""
    return _encoded({"kind": "answer", "weight": _finite("the weight", answer.weight)}, answer.arrays)


def decode_answer(message: bytes, limit: int = MOST_BYTES) -> Answer:
    """Read an answer, or refuse the bytes."""
    header, arrays = _decoded("answer", message, limit)
    weight = _finite("the weight", header["weight"])
    _must(weight >= 0, f"its weight is {weight}")
    _must(weight > 0 or not any(array.any() for array in arrays.values()), "its weight is 0, and its arrays are not")
    return Answer(weight, arrays)


def _encoded(header: dict[str, Any], arrays: Arrays) -> bytes:
    described, buffers = [], []
    for name, array in arrays.items():
        _must(array.dtype.name in _DTYPES, f"the array {name!r} has the dtype {array.dtype}")
        buffers.append(array.astype(_DTYPES[array.dtype.name]).tobytes())
        described.append({"name": name, "dtype": array.dtype.name, "shape": array.shape})
    text = json.dumps(header | {"arrays": described}, separators=(",", ":")).encode()
    message = b"".join([_MAGIC, len(text).to_bytes(4, "little"), text, *buffers])
    # what would be refused there is refused here, where its cause can be found
    (decode_task if header["kind"] == "task" else decode_answer)(message)
    return message


def _decoded(kind: str, message: bytes, limit: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    _must(len(message) <= limit, f"it has {len(message)} bytes, and {limit} are allowed")
    start = len(_MAGIC) + 4
    _must(message[: len(_MAGIC)] == _MAGIC and len(message) >= start, "it does not begin as one")
    length = int.from_bytes(message[len(_MAGIC) : start], "little")
    _must(length <= min(MOST_HEADER_BYTES, len(message) - start), f"its header cannot have {length} bytes")
    header = _header(message[start : start + length])
    _must(header.get("kind") == kind and header.keys() == _KEYS[kind], f"it is no {kind}")
    arrays, offset = {}, start + length
    _must(isinstance(header["arrays"], list), "its arrays are no list")
    for described in header["arrays"]:
        name, array = _array(described, message, offset)
        _must(name not in arrays, f"the array {name!r} is there twice")
        arrays[name] = array
        offset += array.nbytes
    _must(offset == len(message), "it goes on after its arrays")
    return header, arrays


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FeddagError):
            raise
        raise _refusal("its header is no JSON") from None
    _must(isinstance(header, dict), "its header is no JSON object")
    return header


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    _must(len(members) == len(pairs), "its header says something twice")
    return members


def _no_constant(constant: str) -> None:
    raise _refusal(f"its header has the number {constant}")


def _array(described: Any, message: bytes, offset: int) -> tuple[str, np.ndarray]:
    _must(isinstance(described, dict) and described.keys() == {"name", "dtype", "shape"}, "an array is not described")
    name, shape = described["name"], described["shape"]
    _must(_matches(_NAME, name), f"an array has the name {shown(name)}")
    dtype = _DTYPES.get(described["dtype"]) if isinstance(described["dtype"], str) else None
    if dtype is None:
        raise _refusal(f"the array {name!r} has the dtype {shown(described['dtype'])}")
    _must(
        isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS and all(map(_is_whole, shape)),
        f"the array {name!r} has the shape {shown(shape)}",
    )
    left = len(message) - offset
    size = math.prod(shape) * dtype.itemsize
    # an axis of length 0 must not hide others that no machine can hold
    fits = size <= left and math.prod(max(length, 1) for length in shape) <= MOST_BYTES
    _must(fits, f"the array {name!r} has the shape {shown(shape)}, for which {left} bytes are too few")
    numbers = np.frombuffer(message, dtype, math.prod(shape), offset)
    if dtype.kind == "f":
        _must(bool(np.isfinite(numbers).all()), f"the array {name!r} has a value that is no finite number")
    if dtype.kind == "b":
        _must(bool((numbers.view(np.uint8) <= 1).all()), f"the array {name!r} has a value that is not true or false")
    return name, numbers.astype(dtype.newbyteorder("=")).reshape(shape)


def _is_whole(value: Any) -> bool:
    return constraints.is_whole(value, 0) and value < _WHOLE


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _finite(what: str, value: Any) -> float:
    try:
        _must(not isinstance(value, bool | str) and math.isfinite(float(value)), f"{what} is {shown(value)}")
        return float(value)
    except (TypeError, OverflowError):
        raise _refusal(f"{what} is no number") from None


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _refusal(otherwise)


def _refusal(found: str) -> FeddagError:
    return FeddagError(
        f"A message cannot be used: {found}. Have all sites and the server run the same version of feddag, and retry."
    )
