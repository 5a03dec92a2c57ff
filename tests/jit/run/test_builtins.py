"""Numbers, strings, lists and dicts, with the answers of PyTorch 2.13."""

import enum
import math

import pytest

import tritorch
from tritorch.jit.run.builtins import find
from tritorch.jit.run.text import formatted, percent_formatted, text_of
from tritorch.schema import table


def call(name, *args):
    """An operator by its name and overload."""
    full, _, overload = name.partition(".")
    space, _, stem = full.rpartition("::")
    function = find(table.find(stem, overload, space or "aten"))
    assert function is not None, name
    return function(*args)


ANSWERS = [
    ("add.int", (2**62, 2**62), -(2**63)),
    ("sub.int", (-(2**63), 1), 2**63 - 1),
    ("mul.int", (3, 4611686018427387904), -4611686018427387904),
    ("neg.int", (-(2**63),), -(2**63)),
    ("pow.int", (3, -1), 1 / 3),
    ("pow.int", (2, 3), 8.0),
    ("pow.int_to_int", (2, 64), 0),
    ("pow.float", (-8.0, 1 / 3), math.nan),
    ("div.int", (5, 2), 2.5),
    ("div.int", (3, 0), math.inf),
    ("div.float", (-1.0, 0.0), -math.inf),
    ("floordiv.int", (-7, 2), -4),
    ("floordiv.float_int", (7.5, 2), 3.0),
    ("floordiv.float", (1.0, 0.0), math.inf),
    ("__round_to_zero_floordiv.int", (-7, 2), -3),
    ("remainder.int", (-7, 3), 2),
    ("remainder.int", (5, -3), -1),
    ("remainder.float_int", (-7.5, 2), 0.5),
    ("remainder.float", (2.5, 0.0), math.nan),
    ("divmod.int", (-7, 2), (-4, 1)),
    ("divmod.float_int", (7.5, -2), (-4.0, -0.5)),
    ("__lshift__.int", (3, 62), -4611686018427387904),
    ("__lshift__.int", (3, 65), 6),
    ("__rshift__.int", (3, 70), 0),
    ("__rshift__.int", (3, -1), 0),
    ("round.float", (2.5,), 2.0),
    ("round.float", (3.5,), 4.0),
    ("floor.float", (2.5,), 2),
    ("ceil.float", (2.5,), 3),
    ("log.float", (0.0,), -math.inf),
    ("log.float", (-1.0,), math.nan),
    ("sqrt.float", (-1.0,), math.nan),
    ("sqrt.complex", (-1 + 0j,), 1j),
    ("exp.float", (1000.0,), math.inf),
    ("atanh.float", (1.0,), math.inf),
    ("gamma.float", (0.0,), math.inf),
    ("lgamma.float", (0.0,), math.inf),
    ("log1p.float", (-1.0,), -math.inf),
    ("log.int_int", (8, 2), 3.0),
    ("frexp", (8.0,), (0.5, 4)),
    ("modf", (2.5,), (0.5, 2.0)),
    ("mathremainder.float", (5.0, 3.0), -1.0),
    ("fmod.int", (-5, 3), -2.0),
    ("factorial.int", (5,), 120),
    ("gcd.int", (4, 6), 2),
    ("Int.str", (" 5",), 5),
    ("Int.float", (-2.7,), -2),
    ("Float.str", ("1e3",), 1000.0),
    ("Float.str", ("-inf",), -math.inf),
    ("__range_length", (1, 10, 3), 3),
    ("__derive_index", (2, 1, 3), 7),
    ("hex", (-255,), "-0xff"),
    ("bin", (5,), "0b101"),
    ("oct", (8,), "0o10"),
    ("find", ("abc", "c", 0, 2), -1),
    ("find", ("abc", "c", -1, -1), 2),
    ("rfind", ("abcabc", "b", 0, -1), 4),
    ("endswith", ("abc", "bc", 0, -1), True),
    ("startswith", ("abc", "b", 1, -1), True),
    ("split.str", ("a,b,,c", ",", -1), ["a", "b", "", "c"]),
    ("split.str", ("a b  c", None, -1), ["a", "b", "c"]),
    ("rsplit", ("a,b,c", ",", 1), ["a,b", "c"]),
    ("splitlines", ("a\nb\r\nc", False), ["a", "b", "", "c"]),
    ("center", ("abc", 10, "*"), "***abc****"),
    ("ljust", ("abc", 5, "."), "abc.."),
    ("zfill", ("-3", 5), "000-3"),
    ("expandtabs", ("a\tb", 4), "a   b"),
    ("replace", ("abcabc", "b", "XX", 1), "aXXcabc"),
    ("partition", ("abc", "b"), ("a", "b", "c")),
    ("title", ("hello world",), "Hello World"),
    ("slice.str", ("abcdef", None, None, 2), "ace"),
    ("__getitem__.str", ("abc", -1), "c"),
    ("join", ("a", ["1", "2"]), "1a2"),
    ("count", ("abcb", "b", 0, -1), 2),
    ("list", ("abc",), ["a", "b", "c"]),
    ("mul.left_t", ([1, 2], 2), [1, 2, 1, 2]),
    ("mul.right_", (2, [1]), [1, 1]),
    ("slice.t", ([1, 2, 3], None, None, -1), [3, 2, 1]),
    ("slice.t", ([1, 2, 3], -1, 9, 1), [3]),
    ("index.list_int", ([9, 2], 2), 1),
    ("count.int", ([1, 2, 1], 1), 2),
    ("sorted.int", ([3, 1, 2],), [1, 2, 3]),
    ("eq.int_list", ([1, 2], [1, 2]), True),
    ("ne.str_list", (["a"], ["b"]), True),
    ("any.int", ([0, 2],), True),
    ("all.float", ([0.0, 2.0],), False),
    ("sum.int", ([1, 2],), 3),
    ("prim::max.self_int", ([1, 3, 2],), 3),
    ("prim::min.float_int", (2.5, 3), 2.5),
    ("prim::max.float_int", (1.0, 2), 2.0),
    ("prim::max.int_list", ([1, 2], [1, 3]), [1, 3]),
    ("keys.str", ({"a": 1},), ["a"]),
    ("values.str", ({"a": 1},), [1]),
    ("items.str", ({"a": 1},), [("a", 1)]),
    ("get.str", ({"a": 1}, "z"), None),
    ("get.default_str", ({"a": 1}, "z", 4), 4),
    ("popitem.str", ({"a": 1, "b": 2},), ("a", 1)),
    ("dict.str", ([("a", 1)],), {"a": 1}),
    ("__is__", (None, None), True),
    ("__isnot__", (1, None), True),
    ("broadcast_shapes", ([2, 1], [3]), [2, 3]),
]  # fmt: skip


def written(value):
    """The value with its type, in which NaN equals NaN."""
    return type(value), repr(value)


@pytest.mark.parametrize(("name", "args", "answer"), ANSWERS)
def test_operators_give_pytorchs_answers(name, args, answer):
    assert written(call(name, *args)) == written(answer)


CHANGES = [
    ("append.t", ([1], 2), [1, 2]),
    ("insert.t", ([1], -9, 3), [3, 1]),
    ("insert.t", ([1], 100, 3), [1, 3]),
    ("extend.t", ([1], [2]), [1, 2]),
    ("add_.t", ([1], [5]), [1, 5]),
    ("reverse.t", ([1, 2],), [2, 1]),
    ("remove.int", ([1, 2, 1], 1), [2, 1]),
    ("sort.int", ([3, 1, 2], True), [3, 2, 1]),
    ("sort.any", ([(2, "a"), (1, "b")], False), [(1, "b"), (2, "a")]),
    ("_set_item.t", ([1, 2], -1, 5), [1, 5]),
    ("Delete.t", ([1, 2], 0), [2]),
    ("clear.t", ([1],), []),
    ("_set_item.str", ({"a": 1}, "b", 2), {"a": 1, "b": 2}),
    ("Delete.Dict_str", ({"a": 1}, "a"), {}),
    ("update.str", ({"a": 1}, {"a": 2}), {"a": 2}),
    ("setdefault.str", ({"a": 1}, "b", 2), {"a": 1, "b": 2}),
]


@pytest.mark.parametrize(("name", "args", "after"), CHANGES)
def test_operators_change_lists_and_dicts(name, args, after):
    call(name, *args)
    assert args[0] == after


ERRORS = [
    ("floordiv.int", (1, 0), "division by 0"),
    ("divmod.int", (1, 0), "ZeroDivisionError: integer division or modulo by zero"),
    ("divmod.float", (1.0, 0.0), "ZeroDivisionError: float divmod()"),
    ("pow.float", (0.0, -1.0), "0.0 cannot be raised to a negative power"),
    ("Int.str", ("abc",), "stoll"),
    ("Int.str", ("9" * 20,), "stoll"),
    ("Int.str", ("5x",), "invalid literal for int() with base 10: '5x'"),
    ("Float.str", ("abc",), "stod"),
    ("Float.str", ("1.5x",), "could not convert string to float: '1.5x'"),
    ("__range_length", (0, 3, 0), "range() arg 3 must not be zero"),
    ("ord", ("ab",), "String for ord() must be 1 character, found 2"),
    ("chr", (-1,), "chr() arg not in range(0x110000), found -1"),
    ("index.str", ("abc", "z", 0, -1), "ValueError: substring not found"),
    ("center", ("a", 3, "xx"), "TypeError: The fill character must be exactly one character long"),
    ("__getitem__.str", ("abc", 5),
     "basic_string::at: __n (which is 5) >= this->size() (which is 3)"),
    ("__getitem__.str", ("abc", -4),
     "basic_string::at: __n (which is 18446744073709551615) >= this->size() (which is 3)"),
    ("__getitem__.t", ([1], 3), "list index out of range"),
    ("__getitem__.t", ([1], -2), "list index out of range"),
    ("pop.t", ([], -1), "pop from empty list"),
    ("pop.t", ([1], 5), "list index out of range"),
    ("remove.int", ([1], 4), "list.remove(x): x not in list"),
    ("index.list_int", ([1], 3), "'3' is not in list"),
    ("slice.t", ([1], None, None, 0), "List slice should have non-zero step"),
    ("popitem.str", ({},), "popitem(): dictionary is empty"),
    ("prim::min.self_int", ([],), "min() arg is an empty sequence"),
    ("_unwrap_optional", (None,), "Unwrapping null optional"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "message"), ERRORS)
def test_operators_refuse_with_pytorchs_messages(name, args, message):
    with pytest.raises(RuntimeError) as raised:
        call(name, *args)
    assert str(raised.value) == message


def test_a_missing_key_is_told():
    for name in ("__getitem__.Dict_str", "pop.Dict_str", "Delete.Dict_str"):
        with pytest.raises(KeyError, match="z"):
            call(name, {"a": 1}, "z")


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1."),
        (0.1, "0.10000000000000001"),
        (1e10, "10000000000."),
        (1e20, "1e+20"),
        (math.inf, "inf"),
        (True, "True"),
        (None, "None"),
        (1 + 2j, "1.+2.j"),
        ([1.0, "a"], "[1., a]"),
        ((1,), "(1,)"),
        ({"a": [1.5]}, "{a: [1.5]}"),
        (Color.RED, "Enum<Color.RED>"),
        (tritorch.device("cpu"), "cpu"),
        (tritorch.tensor([[1.5, 2.0]]), " 1.5000  2.0000\n[ CPUFloatType{1,2} ]"),
    ],
)
def test_str_writes_as_pytorch_does(value, text):
    assert text_of(value) == text


def test_format_knows_empty_braces_alone():
    assert formatted("{} {0}", 3) == "3 {0}"
    assert formatted("{} ", 3, 4) == "3 "
    with pytest.raises(RuntimeError, match="Too few arguments for format string: {{}} {}"):
        formatted("{{}} {}", 3)


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("%d|%f|%s|%i|%%|%c", (3, 1.5, "q", 6, "c"), "3|1.500000|q|6|%|c"),
        ("%d", (2.5,), "2"),
        ("%e", (2.5,), "2.500000e+00"),
        ("%s", ([3],), "[3]"),
        ("%s %s", ((3, 2.5),), "3 2.5"),
    ],
)
def test_percent_formats(template, values, text):
    assert percent_formatted(template, *values) == text


@pytest.mark.parametrize(
    ("template", "values", "message"),
    [
        ("%g", (1.0,), "The specifier %g is not supported in TorchScript format strings"),
        ("%d", ("a",), "%d requires a number for formatting, but got String"),
        ("%s", ((1, 2),), "Too many arguments for format string"),
        ("%s %s", (1,), "Too few arguments for format string"),
        ("%", (1,), "Incomplete format specifier"),
    ],
)
def test_percent_refuses(template, values, message):
    with pytest.raises(RuntimeError) as raised:
        percent_formatted(template, *values)
    assert str(raised.value) == message


def test_tensors_answer_with_numbers():
    x = tritorch.ones(2, 3)
    assert call("size", x) == [2, 3] and type(call("size", x)) is list
    assert call("size.int", x, 1) == 3
    assert call("prim::dtype", x) == 6 and call("prim::layout", x) == 0
    assert call("len.Tensor", x) == 2
    with pytest.raises(RuntimeError, match="with 6 elements cannot be converted to Scalar"):
        call("Int.Tensor", x)
    with pytest.raises(RuntimeError, match="of dimension other than 0 as a scalar argument"):
        call("IntImplicit", x)
    assert call("tensor.int", 3, 4, None, False).dtype == tritorch.int64
