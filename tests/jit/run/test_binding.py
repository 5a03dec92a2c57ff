"""Arguments and results at the border to Python, with PyTorch's messages."""

from typing import NamedTuple

import pytest

import tritorch
from tritorch.jit._containers import ScriptDict, ScriptList
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import NamedTupleType, ScriptClassType, ScriptEnumType
from tritorch.jit.run.binding import bind
from tritorch.jit.run.values import CastError, is_instance, to_list, to_python, to_script
from tritorch.schema import (
    AnyType,
    BoolType,
    DictType,
    FloatType,
    IntType,
    ListType,
    OptionalType,
    StringType,
    TensorType,
    TupleType,
    UnionType,
)
from tritorch.schema.parser import parse_schema

INT, FLOAT, STR, TENSOR = IntType.get(), FloatType.get(), StringType.get(), TensorType.get()
SCHEMA = parse_schema('f(Tensor x, int n, float fl=1., int[]? l=None, str s="a") -> Tensor')
ONE = tritorch.ones(1)
NO_CAST = (
    "Unable to cast Python instance of type {} to C++ type '?' (#define "
    "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
)


def test_arguments_are_bound_by_place_name_and_default():
    assert bind(SCHEMA, (ONE, 2), {}) == [ONE, 2, 1.0, None, "a"]
    assert bind(SCHEMA, (ONE,), {"n": 2, "l": (1, 2)}) == [ONE, 2, 1.0, [1, 2], "a"]
    assert bind(parse_schema("f(Tensor a, Tensor b) -> Tensor"), (ONE, ONE), {}) == [ONE, ONE]
    assert bind(parse_schema("f(int[2] a) -> Tensor"), (3,), {}) == [[3, 3]]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((3, 1), {},
         "f() Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'.\n"
         f"Position: 0\nValue: 3\nDeclaration: {SCHEMA}\n"
         "Cast error details: Unable to cast 3 to Tensor"),
        ((ONE, 1.5), {},
         "f() Expected a value of type 'int' for argument 'n' but instead found type 'float'.\n"
         f"Position: 1\nValue: 1.5\nDeclaration: {SCHEMA}\n"
         f"Cast error details: {NO_CAST.format(float)}"),
        ((ONE, 1), {"l": [1, "a"]},
         "f() Expected a value of type 'Optional[List[int]]' for argument 'l' but instead found "
         f"type 'list'.\nPosition: 3\nValue: [1, 'a']\nDeclaration: {SCHEMA}\n"
         f"Cast error details: {NO_CAST.format(list)}"),
        ((ONE,), {}, f"f() is missing value for argument 'n'. Declaration: {SCHEMA}"),
        ((ONE, 1, 1.0, None, "", 4), {},
         f"f() expected at most 5 argument(s) but received 6 argument(s). Declaration: {SCHEMA}"),
        ((ONE, 1), {"zz": 3}, f"Unknown keyword argument 'zz' for operator 'f'. Schema: {SCHEMA}"),
        ((ONE, 1), {"x": ONE},
         f"Argument 'x' specified both as positional and keyword argument. Schema: {SCHEMA}"),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit_are_refused_as_in_pytorch(args, kwargs, message):
    with pytest.raises(RuntimeError) as raised:
        bind(SCHEMA, args, kwargs)
    assert str(raised.value) == message


class Pair(NamedTuple):
    x: int
    y: float


POINT = NamedTupleType("__torch__.Pair", ["x", "y"], [INT, FLOAT])


@pytest.mark.parametrize(
    ("value", "kind", "result"),
    [
        (1, FLOAT, 1.0),
        (tritorch.tensor(3), INT, 3),
        (tritorch.tensor(2.5), FLOAT, 2.5),
        (True, INT, 1),
        (tritorch.float32, INT, 6),
        (1, BoolType.get(), True),
        ((1, 2), ListType(FLOAT), [1.0, 2.0]),
        (tritorch.Size([2, 3]), ListType(INT), [2, 3]),
        ([1, "a"], TupleType([INT, STR]), (1, "a")),
        ({"a": 1}, DictType(STR, FLOAT), {"a": 1.0}),
        (None, OptionalType(INT), None),
        ("a", UnionType([INT, STR]), "a"),
        ([tritorch.int64, (1,)], AnyType.get(), [4, (1,)]),
        ("cpu", parse_schema("f(Device d) -> ()").arguments[0].type, tritorch.device("cpu")),
    ],
)
def test_values_become_those_of_a_type(value, kind, result):
    found = to_script(value, kind)
    assert found == result and type(found) is type(result)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ((1,), TupleType([INT, STR]),
         "Object (1,) had a different number of elements than type Tuple[int, str]"),
        (1.5, UnionType([INT, STR]),
         "Expected a member of Union[int, str] but instead found type float"),
        (2**70, INT, NO_CAST.format(int)),
        (3, STR, NO_CAST.format(int)),
        (None, TENSOR, "Unable to cast None to Tensor"),
        ("x", ListType(STR), NO_CAST.format(str)),
    ],
)  # fmt: skip
def test_values_of_other_types_are_refused(value, kind, message):
    with pytest.raises(CastError) as raised:
        to_script(value, kind)
    assert str(raised.value) == message


def test_plain_lists_are_copied_and_script_lists_are_not():
    items = [1, 2]
    assert to_script(items, ListType(INT)) is not items
    assert to_python(items) is not items
    script = ScriptList([1, 2])
    to_script(script, ListType(INT)).append(3)
    assert list(script) == [1, 2, 3]
    table = ScriptDict({"a": 1})
    to_script(table, DictType(STR, INT))["b"] = 2
    assert dict(table.items()) == {"a": 1, "b": 2}


def test_named_tuples_and_members_are_of_the_types_own_classes():
    point = to_script(Pair(1, 2), POINT)
    assert type(point) is POINT.python and point == (1, 2.0)
    color = ScriptEnumType("__torch__.Color", INT, {"RED": 1})
    assert to_script(color.python.RED, color) is color.python.RED
    with pytest.raises(CastError):
        to_script(1, color)


class Thing:
    def __init__(self):
        self.n = 3


def test_objects_of_classes_give_their_attributes_and_come_back():
    kind = ScriptClassType("__torch__.Thing")
    kind.add_attribute("n", FLOAT)
    thing = Thing()
    data = to_script(thing, kind)
    assert type(data) is ScriptObjectData and data.slots == {"n": 3.0}
    assert to_python(data) is thing
    kind.add_attribute("m", FLOAT)
    message = "Tried to cast object to type __torch__.Thing but object was missing attribute m"
    with pytest.raises(CastError, match=message):
        to_script(thing, kind)


@pytest.mark.parametrize(
    ("value", "kind", "answer"),
    [
        (1, INT, True),
        (True, INT, False),
        ([1], ListType(INT), True),
        ([1], ListType(STR), False),
        ([], ListType(STR), True),
        ((1, "a"), TupleType([INT, STR]), True),
        ({"a": 1}, DictType(STR, STR), False),
        (None, OptionalType(INT), True),
        (ONE, TENSOR, True),
    ],
)
def test_isinstance_looks_at_the_value_of_an_any(value, kind, answer):
    assert is_instance(value, [kind], AnyType.get()) is answer


def test_tolist_checks_the_declared_type():
    x = tritorch.tensor([[1, 2]])
    assert to_list(x, ListType(ListType(INT))) == [[1, 2]]
    with pytest.raises(RuntimeError, match="annotation list dimension"):
        to_list(x, ListType(INT))
    with pytest.raises(RuntimeError, match="annotation element type"):
        to_list(x, ListType(ListType(FLOAT)))
