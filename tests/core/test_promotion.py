"""Type promotion against a model of PyTorch's rules, and against NumPy where it agrees."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tritorch as torch

# ---- the model -----------------------------------------------------------------------------------
# Two types promote to the least one that both can reach along these arrows.

ARROWS = {
    "bool": ["uint8", "int8"],
    "uint8": ["int16"],
    "int8": ["int16"],
    "int16": ["int32"],
    "int32": ["int64"],
    "int64": ["float16", "bfloat16"],
    "float16": ["float32"],
    "bfloat16": ["float32"],
    "float32": ["float64", "complex64"],
    "float64": ["complex128"],
    "complex64": ["complex128"],
    "complex128": [],
}
NAMES = [*ARROWS]
BAREBONES = ["uint16", "uint32", "uint64"]  # PyTorch lets them meet floating-point types only
FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]
EVERY_NAME = [*NAMES, *BAREBONES, *FLOAT8]
NUMBERS = {"bool": True, "int64": 3, "float32": 1.5, "complex64": 2j}
SCALAR_LEVEL = {"bool": 0, "int64": 1, "float32": 2, "complex64": 3}


@functools.cache
def above(name: str) -> frozenset[str]:
    return frozenset([name]).union(*(above(up) for up in ARROWS[name]))


@functools.cache
def join(a: str, b: str) -> str:
    common = above(a) & above(b)
    (least,) = (name for name in common if common <= above(name))
    return least


def level(name: str) -> int:
    if name.startswith("complex"):
        return 3
    return 2 if "float" in name else int(name != "bool")


def complex_of(name: str) -> str:
    return {"float64": "complex128", "float16": "complex32"}.get(name, "complex64")


def model(operands: list[tuple[str, str]]) -> str:
    """operands: (type, "dims" | "0-dim" | "number"); a lower rank counts only if its category is
    wider, and then a floating-point type keeps its width."""
    result = None
    for rank in ("dims", "0-dim", "number"):
        names = [name for name, own in operands if own == rank]
        if not names:
            continue
        other = functools.reduce(join, names)
        if result is None:
            result = other
        elif level(other) > level(result):
            result = complex_of(result) if level(result) == 2 else join(result, other)
    return result


def dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def short(kind: torch.dtype) -> str:
    return str(kind).removeprefix("tritorch.")


def operand(name: str, rank: str):
    if rank == "number":
        return NUMBERS[name]
    return torch.ones((2, 3) if rank == "dims" else (), dtype=dtype(name))


operands = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["dims", "0-dim"])),
    st.tuples(st.sampled_from([*NUMBERS]), st.just("number")),
)

# ---- promote_types, can_cast, result_type --------------------------------------------------------


def test_promote_types_is_the_join():
    for a, b in itertools.product(NAMES, NAMES):
        assert short(torch.promote_types(dtype(a), dtype(b))) == join(a, b), (a, b)


@pytest.mark.parametrize("special", [*BAREBONES, *FLOAT8])
def test_types_that_hardly_promote(special):
    assert torch.promote_types(dtype(special), dtype(special)) is dtype(special)
    for other in EVERY_NAME:
        if other == special:
            continue
        floats = special in BAREBONES and level(other) == 2 and other not in FLOAT8
        for pair in ((special, other), (other, special)):
            if floats:
                assert torch.promote_types(*map(dtype, pair)) is dtype(other)
            else:
                with pytest.raises(RuntimeError, match="[Pp]romot"):
                    torch.promote_types(*map(dtype, pair))


def test_numpy_agrees_within_a_category():
    # Where integers meet floats PyTorch keeps the float's width, NumPy holds every value.
    names = [name for name in NAMES if name != "bfloat16"]
    for a, b in itertools.product(names, names):
        if level(a) == level(b) or "bool" in (a, b) or {level(a), level(b)} == {2, 3}:
            assert (
                np.promote_types(a, b).name
                == join(a, b)
                == short(torch.promote_types(dtype(a), dtype(b)))
            )
    assert torch.promote_types(torch.int64, torch.float32) is torch.float32
    assert np.promote_types("int64", "float32") == np.float64


def test_can_cast_never_lowers_the_category():
    # Unlike in NumPy, widths do not matter: float64 casts to float16.
    for a, b in itertools.product(EVERY_NAME, EVERY_NAME):
        assert torch.can_cast(dtype(a), dtype(b)) == (level(a) <= level(b)), (a, b)


@settings(max_examples=300)
@given(st.lists(operands, min_size=2, max_size=2))
def test_result_type(pair):
    assert short(torch.result_type(*(operand(*own) for own in pair))) == model(pair)


def test_result_type_of_barebones_types_with_numbers_and_0_dims():
    for name in BAREBONES:
        x = torch.ones(2, dtype=dtype(name))
        assert torch.result_type(x, 3) is torch.result_type(x, True) is dtype(name)
        assert torch.result_type(x, 1.5) is torch.float32
        assert torch.result_type(x, 2j) is torch.complex64
        assert torch.result_type(x, torch.tensor(2j)) is torch.complex64


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_numbers_take_the_default_dtype(default):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype(default))
    try:
        x = torch.ones(2, dtype=torch.int32)
        assert torch.result_type(x, 1.5) is (x + 1.5).dtype is (x / 2).dtype is dtype(default)
        assert short((x + 2j).dtype) == complex_of(default)
        assert (torch.ones(2, dtype=torch.float16) + 1.5).dtype is torch.float16
    finally:
        torch.set_default_dtype(before)


# ---- operators -----------------------------------------------------------------------------------

# name: what the operator makes of the promoted type (None: it has no such operator)
ARITHMETIC = {
    "add": lambda name: name,
    "mul": lambda name: name,
    "sub": lambda name: name,
    "div": lambda name: name if level(name) >= 2 else "float32",
    "pow": lambda name: name,
    "eq": lambda name: "bool",
    "ge": lambda name: "bool" if level(name) < 3 else None,
    "floor_divide": lambda name: name if level(name) in (1, 2) else None,
    "remainder": lambda name: name if level(name) in (1, 2) else None,
    "bitwise_and": lambda name: name if level(name) < 2 else None,
    "logical_or": lambda name: "bool",
}
AS_SIGN = {
    "add": "+", "mul": "*", "sub": "-", "div": "/", "pow": "**", "eq": "==", "ge": ">=",
    "floor_divide": "//", "remainder": "%", "bitwise_and": "&",
}  # fmt: skip


def expected(name: str, pair: list[tuple[str, str]]) -> str | None:
    promoted = model(pair)
    if name == "sub" and "bool" in (pair[0][0], pair[1][0]):
        return None
    if promoted == "complex32" and (name == "pow" or (name == "div" and pair[0][1] != "number")):
        return None  # a number over a tensor is the tensor's reciprocal times the number
    if name == "pow" and promoted == "bool":
        return None  # PyTorch's power of two bools is undefined for tensors, int64 for numbers
    return ARITHMETIC[name](promoted)


def check_operator(name, pair, device="cpu"):
    if device != "cpu" and model(pair) == "complex32":
        return  # is not on the GPU
    if pair[0][1] == pair[1][1] == "number":
        pair = [(pair[0][0], "dims"), pair[1]]
    want = expected(name, pair)
    values = [operand(*own) for own in pair]
    values = [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]
    if isinstance(values[0], torch.Tensor):
        function = lambda: getattr(torch, name)(*values)
    elif name in AS_SIGN:
        function = lambda: eval(f"a {AS_SIGN[name]} b", {"a": values[0], "b": values[1]})
    else:
        return
    if name == "logical_or" and "number" in (pair[0][1], pair[1][1]):
        with pytest.raises(TypeError, match="must be Tensor"):
            function()
        return
    if want is None:
        if name != "pow":
            with pytest.raises((RuntimeError, NotImplementedError)):
                function()
        return
    out = function()
    assert short(out.dtype) == want
    assert tuple(out.shape) == ((2, 3) if "dims" in (pair[0][1], pair[1][1]) else ())
    a, b = (NUMBERS[n] if rank == "number" else 1 for n, rank in pair)
    if name in ("add", "mul", "eq"):
        wanted = {"add": a + b, "mul": a * b, "eq": a == b}[name]
        assert out.reshape(-1)[0].item() == (bool(wanted) if want == "bool" else wanted)


@settings(max_examples=400)
@given(st.sampled_from([*ARITHMETIC]), st.lists(operands, min_size=2, max_size=2))
def test_operators(name, pair):
    check_operator(name, pair)


@pytest.mark.parametrize("name", ["add", "mul", "div", "eq"])
def test_operators_on_every_pair(name):
    for a, b in itertools.product(NAMES, NAMES):
        for ranks in itertools.product(["dims", "0-dim"], repeat=2):
            check_operator(name, [(a, ranks[0]), (b, ranks[1])])


@pytest.mark.device
@settings(max_examples=30)
@given(
    st.sampled_from(["add", "mul", "div", "eq", "sub"]), st.lists(operands, min_size=2, max_size=2)
)
def test_operators_on_a_gpu(name, pair):
    check_operator(name, pair, "cuda")


@settings(max_examples=100)
@given(st.sampled_from(NAMES), operands)
def test_in_place_keeps_the_dtype_or_refuses(name, other):
    x = torch.ones((2, 3), dtype=dtype(name))
    promoted = model([(name, "dims"), other])
    if torch.can_cast(dtype(promoted), dtype(name)):
        assert x.mul_(operand(*other)).dtype is dtype(name)
    else:
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            x.mul_(operand(*other))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.just("dims")), min_size=2, max_size=4))
def test_cat_and_stack_promote_all(parts):
    tensors = [operand(*part) for part in parts]
    want = functools.reduce(join, (name for name, _ in parts))
    assert short(torch.cat(tensors).dtype) == short(torch.stack(tensors).dtype) == want


@settings(max_examples=100)
@given(st.lists(operands, min_size=2, max_size=2))
def test_where_promotes(pair):
    mask = torch.tensor([True, False, True])
    assert short(torch.where(mask, *(operand(*own) for own in pair)).dtype) == model(pair)
