"""Any bytes are a whole message or refused; a message comes back to the bit."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from feddag.deployment.study_tasks import known_tasks
from feddag.errors import FeddagError
from feddag.federation import Answer, Task
from feddag.federation.wire import decode_answer, decode_task, encode_answer, encode_task
from feddag.models import DAGGNN, NOTEARSMLP, Linear, MaskedMLP
from feddag.models.pytrees import flatten

DTYPES = ["float64", "float32", "int64", "int8", "uint8", "bool"]
TASK = Task("feddag.solve", 3, {"steps": 200, "rho": 1e-3}, {"graph": np.eye(3, dtype=np.float32)}, (0, 2))
ANSWER = Answer(600.0, {"graph": np.eye(3, dtype=np.float32), "rows": np.array(7.0)})

names = st.from_regex(r"[A-Za-z0-9_]{1,8}(/[A-Za-z0-9_]{1,8}){0,2}", fullmatch=True).filter(str.isascii)
finite = st.floats(allow_nan=False, allow_infinity=False)
arrays = st.dictionaries(
    names,
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: npst.arrays(
            np.dtype(dtype),
            npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
            elements={"allow_nan": False, "allow_infinity": False} if dtype.startswith("float") else None,
        )
    ),
    max_size=4,
)
tasks = st.builds(
    Task,
    name=st.sampled_from(sorted(known_tasks())),
    round=st.integers(0, 2**53 - 1),
    numbers=st.dictionaries(names, finite, max_size=4),
    arrays=arrays,
    participants=st.lists(st.integers(0, 10**6), unique=True, max_size=6).map(tuple),
)
answers = st.builds(Answer, weight=finite.filter(lambda weight: weight > 0), arrays=arrays)


def assert_same_arrays(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


@given(tasks)
def test_a_task_comes_back_to_the_bit(task):
    found = decode_task(encode_task(task))
    for field in ("name", "round", "numbers", "participants"):
        assert getattr(found, field) == getattr(task, field)
    assert [(name, value.hex()) for name, value in found.numbers.items()] == [
        (name, value.hex()) for name, value in task.numbers.items()
    ]
    assert_same_arrays(found.arrays, task.arrays)


@given(answers)
def test_an_answer_comes_back_to_the_bit(answer):
    found = decode_answer(encode_answer(answer))
    assert found.weight == answer.weight
    assert_same_arrays(found.arrays, answer.arrays)


def assert_decoded_or_refused(message):
    for decode, encode in ((decode_task, encode_task), (decode_answer, encode_answer)):
        try:
            found = decode(message)
        except FeddagError:
            continue
        assert encode(decode(encode(found))) == encode(found)


@given(st.binary())
def test_any_bytes_are_a_message_or_refused(noise):
    assert_decoded_or_refused(noise)
    assert_decoded_or_refused(b"feddag-2" + noise)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(DTYPES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
tops = ["kind", "name", "round", "numbers", "participants", "weight", "arrays"]
keys = st.sampled_from(tops) | st.sampled_from(
    [("arrays",), ("arrays", "name"), ("arrays", "shape"), ("arrays", "dtype")]
)


@given(st.sampled_from([encode_task(TASK), encode_answer(ANSWER)]), keys, json_values | st.just(10**400), st.binary())
def test_any_header_is_a_message_or_refused(message, key, value, tail):
    header, rest = taken_apart(message)
    if isinstance(key, str):
        header[key] = value
    elif key == ("arrays",):
        header["arrays"].append(value)
    else:
        header["arrays"][0][key[1]] = value
    assert_decoded_or_refused(put_together(header, rest + tail))
    assert_decoded_or_refused(put_together(header, rest))


@given(
    st.sampled_from([encode_task(TASK), encode_answer(ANSWER)]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_any_damage_gives_a_message_or_is_refused(message, damage):
    broken = bytearray(message)
    for position, byte in damage:
        broken[position % len(broken)] = byte
    assert_decoded_or_refused(bytes(broken))


@pytest.mark.parametrize("message", [encode_task(TASK), encode_answer(ANSWER)])
def test_whatever_is_cut_off_or_added_is_noticed(message):
    for end in range(len(message)):
        for decode in (decode_task, decode_answer):
            with pytest.raises(FeddagError):
                decode(message[:end])
    with pytest.raises(FeddagError, match="goes on after its arrays"):
        (decode_answer if b'"answer"' in message else decode_task)(message + b"\0")


def taken_apart(message: bytes):
    length = int.from_bytes(message[8:12], "little")
    return json.loads(message[12 : 12 + length]), message[12 + length :]


def put_together(header, rest: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"feddag-2" + len(text).to_bytes(4, "little") + text + rest


def described(name="x", dtype="float64", shape=(1,)):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


ONE = np.array([1.0]).tobytes()


@pytest.mark.parametrize(
    ("parts", "rest", "found"),
    [
        ([described(dtype="object")], ONE, "has the dtype 'object'"),
        ([described(dtype="<f8")], ONE, "has the dtype '<f8'"),
        ([described(dtype="complex128")], ONE * 2, "complex128"),
        ([described(name="../x")], ONE, "has the name '../x'"),
        ([described(name="x\n")], ONE, "has the name"),
        ([described(name="")], ONE, "has the name ''"),
        ([described(), described()], ONE * 2, "is there twice"),
        ([described(shape=[-1])], ONE, r"has the shape \[-1\]"),
        ([described(shape=[True])], ONE, "has the shape"),
        ([described(shape=[2])], ONE, "8 bytes are too few"),
        ([described(shape=[0, 2**50])], b"", "bytes are too few"),
        ([described(shape=[1] * 9)], ONE, "has the shape"),
        ([described()], np.array([math.nan]).tobytes(), "no finite number"),
        ([described(dtype="float32", shape=[2])], np.array([0, -math.inf], np.float32).tobytes(), "no finite number"),
        ([described(dtype="bool")], b"\2", "not true or false"),
        ([described() | {"order": "F"}], ONE, "an array is not described"),
    ],
)
def test_arrays_are_checked(parts, rest, found):
    with pytest.raises(FeddagError, match=found):
        decode_answer(put_together({"kind": "answer", "weight": 1.0, "arrays": parts}, rest))


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b'{"kind":"answer","weight":NaN,"arrays":[]}', "has the number NaN"),
        (b'{"kind":"answer","weight":1e999,"arrays":[]}', "the weight is inf"),
        (b'{"kind":"answer","weight":0,"arrays":[]}', "its weight is 0"),
        (b'{"kind":"answer","weight":true,"arrays":[]}', "the weight is True"),
        (b'{"kind":"answer","weight":"1","arrays":[]}', "the weight is '1'"),
        (b'{"kind":"answer","weight":1,"weight":1,"arrays":[]}', "says something twice"),
        (b'{"kind":"answer","weight":1,"arrays":[],"code":"x"}', "it is no answer"),
        (b'{"kind":"task","weight":1,"arrays":[]}', "it is no answer"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff", "no JSON"),
        (b"[]", "no JSON object"),
    ],
)
def test_headers_are_checked(header, found):
    with pytest.raises(FeddagError, match=found):
        decode_answer(put_together(header, b""))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"name": "Feddag.Solve"}, "its name is"),
        ({"name": "search.rows\n"}, "its name is"),
        ({"round": -1}, "its round is -1"),
        ({"round": 1.0}, "its round is 1.0"),
        ({"round": 2**53}, "its round is"),
        ({"participants": [0, 0]}, "named twice"),
        ({"participants": [-1]}, "no positions"),
        ({"numbers": {"a b": 1}}, "have no names"),
        ({"numbers": {"rho": None}}, "'rho' is no number"),
    ],
)
def test_tasks_are_checked(change, found):
    header, rest = taken_apart(encode_task(TASK))
    with pytest.raises(FeddagError, match=found):
        decode_task(put_together(header | change, rest))


def test_a_message_larger_than_allowed_is_refused_unread():
    message = encode_answer(ANSWER)
    assert decode_answer(message, limit=len(message)).weight == ANSWER.weight
    with pytest.raises(FeddagError, match=f"{len(message)} bytes, and 20 are allowed"):
        decode_answer(message, limit=20)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer(1.0, {"x": np.array([math.nan])}), "no finite number"),
        (Answer(1.0, {"x": np.array(["text"])}), "has the dtype"),
        (Answer(1.0, {"x": np.array([object()])}), "has the dtype object"),
        (Answer(math.inf, {}), "the weight is inf"),
        (Answer(1.0, {"not a name": np.zeros(1)}), "has the name 'not a name'"),
    ],
)
def test_what_would_be_refused_there_is_refused_here(answer, found):
    with pytest.raises(FeddagError, match=found):
        encode_answer(answer)


def test_every_field_of_a_message_is_sent():
    """A field that is added to the protocol must be added to the wire, unless both sides know it already."""
    declared = {"complete"}
    assert {field.name for field in fields(Task)} - declared == {"name", "round", "numbers", "arrays", "participants"}
    assert encode_task(replace(TASK, complete=True)) == encode_task(replace(TASK, complete=False))
    own = {"notes"}  # for the site's operator
    assert {field.name for field in fields(Answer)} - own == {"weight", "arrays"}
    answer = Answer(1.0, {"x": np.ones(2)})
    assert encode_answer(replace(answer, notes=("rows 1 to 3 do not fit",))) == encode_answer(answer)


def test_every_memory_layout_is_sent_as_rows_in_little_endian():
    array = np.arange(6.0).reshape(2, 3)
    layouts = [array, np.asfortranarray(array), array.astype(">f8"), np.repeat(array, 2, axis=1)[:, ::2]]
    assert len({encode_answer(Answer(1.0, {"x": layout})) for layout in layouts}) == 1


def test_what_is_received_may_be_worked_on():
    found = decode_answer(encode_answer(ANSWER)).arrays["graph"]
    found += 1
    assert found[0, 0] == 2


@pytest.mark.parametrize("model", [Linear(), MaskedMLP(), NOTEARSMLP(), DAGGNN()])
def test_every_models_parameters_can_be_sent(model):
    parameters = flatten(model.init(np.random.default_rng(0), 4))
    assert_same_arrays(decode_answer(encode_answer(Answer(1.0, parameters))).arrays, parameters)
