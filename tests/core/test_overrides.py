"""Subclasses of Tensor, `__torch_function__`, function modes (tritorch.overrides)."""

import copy
import gc
import inspect
import pickle
import weakref

import numpy as np
import pytest

import tritorch as torch
from tritorch import overrides
from tritorch.nn import functional as F


class Plain(torch.Tensor):
    """A subclass that overrides nothing."""


class Logged(torch.Tensor):
    """Notes what is called."""

    calls: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Ten:
    """No tensor: functions of tensors take it as 10."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [10.0 if isinstance(arg, Ten) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


@pytest.fixture
def logged():
    Logged.calls = []
    x = torch.arange(4.0).reshape(2, 2).as_subclass(Logged)
    Logged.calls.clear()
    return x


# As PyTorch names them to an override.
@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("x + 1", ["Tensor.add"]), ("1 + x", ["Tensor.add"]), ("1 - x", ["Tensor.__rsub__"]),
        ("x / 2", ["Tensor.div"]), ("2 / x", ["Tensor.__rdiv__"]), ("x @ x", ["Tensor.matmul"]),
        ("torch.ones(2, 2) @ x", ["Tensor.matmul"]), ("x ** 2", ["Tensor.pow"]),
        ("-x", ["Tensor.neg"]), ("abs(x)", ["Tensor.abs"]), ("x == 1", ["Tensor.__eq__"]),
        ("x < 1", ["Tensor.lt"]), ("x.__iadd__(1)", ["Tensor.add_"]),
        ("x[0]", ["Tensor.__getitem__"]), ("len(x)", ["Tensor.__len__"]),
        ("x.sum(0)", ["Tensor.sum"]), ("torch.add(x, 1)", ["add"]), ("F.relu(x)", ["relu"]),
        ("torch.cat([x, x])", ["cat"]), ("torch.stack((torch.ones(2, 2), x))", ["stack"]),
        ("torch.where(x > 0, x, x)", ["Tensor.gt", "where"]),
        ("torch.zeros_like(x)", ["zeros_like"]),
        ("x.numel()", ["Tensor.numel"]), ("torch.is_tensor(x)", []), ("hash(x)", []),
        ("x.as_subclass(Plain)", []),
        ("F.cross_entropy(x, torch.tensor([0, 1]))", ["cross_entropy"]),
        ("torch.einsum('ij->i', x)", ["einsum"]), ("F.linear(torch.ones(1, 2), x)", ["linear"]),
        ("torch.linalg.qr(x)", ["qr"]),
    ],
)  # fmt: skip
def test_what_an_override_is_told(logged, code, names):
    eval(code, {"x": logged, "torch": torch, "F": F, "Plain": Plain})
    assert [func.__qualname__ for func in Logged.calls] == names


@pytest.mark.parametrize(
    "name", ["shape", "T", "data", "dtype", "device", "requires_grad", "grad_fn"]
)
def test_properties_are_overridden_too(logged, name):
    getattr(logged, name)
    assert Logged.calls == [getattr(torch.Tensor, name).__get__]
    assert overrides.resolve_name(Logged.calls[0]) == f"torch.Tensor.{name}.__get__"


def test_setting_a_property(logged):
    logged.requires_grad = True
    assert Logged.calls == [torch.Tensor.requires_grad.__set__]
    assert logged._requires_grad


def test_results_are_of_the_subclass():
    x = torch.ones(3, 3).as_subclass(Plain)
    for result in (x + 1, x.sum(), x[0], x.T, F.relu(x), torch.cat([x, torch.ones(1, 3)]), 2 - x):
        assert type(result) is Plain
    assert type(x.max(0).values) is Plain and type(x.split(1)[0]) is Plain
    assert type(torch.ones(3, 3) * x) is Plain
    assert type(x.tolist()) is list and type(x.numpy()) is np.ndarray
    x += 1
    assert type(x) is Plain and x.tolist() == [[2.0] * 3] * 3


def test_gradients_flow_through_a_subclass():
    leaf = torch.ones(3, requires_grad=True)
    x = leaf.as_subclass(Plain)
    y = (x * 2).sum()
    assert type(y) is Plain and y.requires_grad
    y.backward()
    assert leaf.grad.tolist() == [2.0] * 3 and type(leaf.grad) is torch.Tensor
    own = torch.ones(2).as_subclass(Plain).requires_grad_()
    (own * own).sum().backward()
    assert own.grad.tolist() == [2.0, 2.0]


def test_views_of_a_subclass_share_memory_and_history():
    x = torch.zeros(2, 2).as_subclass(Plain)
    x[0].fill_(1)
    assert x.tolist() == [[1, 1], [0, 0]]
    leaf = torch.ones(2, 2, requires_grad=True)
    y = (leaf * 1).as_subclass(Plain)
    y[0].mul_(3)
    y.sum().backward()
    assert leaf.grad.tolist() == [[3, 3], [1, 1]]


def test_two_unrelated_subclasses():
    class Other(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="Multiple dispatch failed for 'tritorch.Tensor.add'"):
        torch.ones(1).as_subclass(Plain) + torch.ones(1).as_subclass(Other)


def test_the_most_derived_class_is_asked_first():
    asked = []

    class Derived(Plain):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls)
            return super().__torch_function__(func, types, args, kwargs)

    result = torch.ones(1).as_subclass(Plain) + torch.ones(1).as_subclass(Derived)
    assert asked == [Derived] and type(result) is Derived


def test_what_is_no_tensor_may_override():
    assert (torch.add(torch.ones(2), Ten()) == 11).all()
    assert overrides.is_tensor_like(Ten()) and overrides.has_torch_function((1, Ten()))
    assert not overrides.has_torch_function_variadic(1, torch.ones(1), torch.nn.Parameter())


def test_parameters_do_not_override():
    layer = torch.nn.Linear(2, 2)
    assert type(layer.weight + 1) is torch.Tensor
    assert not overrides.has_torch_function_unary(layer.weight)


def test_overriding_is_switched_off():
    x = torch.ones(2).as_subclass(Plain)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
    assert type(x + 1) is Plain
    Logged.calls = []
    with pytest.raises(ZeroDivisionError), torch.DisableTorchFunction():
        raise ZeroDivisionError
    assert type(x + 1) is Plain


def test_a_class_that_gets_an_override_later():
    class Late(torch.Tensor):
        pass

    x = torch.ones(1).as_subclass(Late)
    assert type(x + 1) is Late
    Late.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "mine")
    assert x + 1 == "mine"
    Late.__torch_function__ = torch._C._disabled_torch_function_impl
    assert type(x + 1) is torch.Tensor


def test_python_functions_may_be_overridable():
    @overrides.wrap_torch_function(lambda x, scale=1: (x,))
    def scaled(x, scale=1):
        return x * scale

    assert scaled(torch.ones(1), scale=3).item() == 3
    assert scaled(Ten(), scale=3) == 30


def test_redispatching_overrides_what_is_called_within():
    seen = []

    class Deep(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    result = scaled(torch.full((1,), 3.0).as_subclass(Deep), torch.full((1,), 4.0))
    assert result.item() == 13 and type(result) is torch.Tensor
    assert seen == ["scaled", "mul"]


# ---- modes ---------------------------------------------------------------------------------------


class Counting(overrides.TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_every_call():
    with Counting() as mode:
        x = torch.ones(2)
        F.relu(x + 1).sum()
    torch.ones(1)
    assert mode.seen == ["ones", "add", "relu", "sum"]


def test_modes_nest():
    with Counting() as outer, Counting() as inner:
        torch.ones(1)
    assert inner.seen == outer.seen == ["ones"]
    with overrides.BaseTorchFunctionMode():
        assert torch.ones(1).item() == 1


def test_a_mode_may_answer():
    class Nine(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 9 if func is torch.ones else NotImplemented

    with Nine():
        assert torch.ones(3) == 9
        with pytest.raises(TypeError, match="mode <class"):
            torch.zeros(3)


def test_a_mode_leaves_after_an_error():
    class Failing(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"), Failing():
        torch.ones(1)
    assert torch.ones(1).item() == 1


# ---- gates ---------------------------------------------------------------------------------------


def test_functions_look_like_functions():
    assert torch.add.__name__ == "add" and torch.Tensor.add.__qualname__ == "Tensor.add"
    assert F.relu.__module__ == "tritorch.nn.functional" and "relu" in repr(F.relu)
    assert "alpha" in inspect.signature(torch.add).parameters
    assert torch.add.__doc__
    for function in (torch.add, torch.Tensor.add, F.relu):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
        assert weakref.ref(function)() is function


def test_many_arguments_and_keywords():
    parts = [torch.ones(1) for _ in range(40)]
    assert torch.cat(parts).shape == (40,)
    assert torch.cat(tensors=parts, dim=0).shape == (40,)
    mixed = torch.cat([*parts, torch.ones(1).as_subclass(Plain)])
    assert type(mixed) is Plain
    assert torch.einsum("a,a,a,a,a,a,a,a,a->a", *parts[:9]).shape == (1,)


def test_the_lists_of_functions():
    functions = overrides.get_overridable_functions()
    assert torch.add in functions[torch] and F.relu in functions[torch.nn.functional]
    assert torch.Tensor.add in functions[torch.Tensor]
    doubles = overrides.get_testing_overrides()
    assert doubles[torch.add](1, 2) == -1
    assert overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"
    assert overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not overrides.is_tensor_method_or_property(torch.add)
    assert torch.is_tensor in overrides.get_ignored_functions()


def test_subclasses_are_freed():
    x = torch.ones(2).as_subclass(Plain)
    y = x * 2
    kept = weakref.ref(y)
    del y
    assert kept() is None
    gc.collect()


def test_copies_and_pickles_keep_the_class():
    x = torch.arange(3.0).as_subclass(Plain)
    x.note = "kept"
    for twin in (copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert type(twin) is Plain and twin.note == "kept" and twin.tolist() == [0, 1, 2]
