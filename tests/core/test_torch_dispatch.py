"""Subclasses with `__torch_dispatch__`: what they wrap computes, under autograd and in modules."""

from typing import ClassVar

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    _pop_mode_temporarily,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)


def mapped(function, value):
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, x) for x in value)
    return function(value) if isinstance(value, torch.Tensor) else value


class Wrapped(torch.Tensor):
    """A tensor around another one, which notes what is asked of it."""

    log: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        out = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=requires_grad,
        )  # fmt: skip
        out.inner = inner
        return out

    def __repr__(self, **kwargs):
        return f"Wrapped({self.inner})"

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size, outer_stride):
        return Wrapped(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.log.append(str(func))
        plain = lambda x: x.inner if isinstance(x, Wrapped) else x
        given, named = mapped(plain, args), {k: mapped(plain, v) for k, v in (kwargs or {}).items()}
        out = func(*given, **named)
        wrapped = mapped(lambda x: Wrapped(x), out)
        return return_and_correct_aliasing(func, args, kwargs or {}, wrapped)


@pytest.fixture(autouse=True)
def log():
    Wrapped.log = []
    return Wrapped.log


def test_operators_and_gradients_go_through(log):
    x = Wrapped(torch.arange(6.0).reshape(2, 3), requires_grad=True)
    y = (x * 2).exp().sum()
    assert type(y) is Wrapped and y.grad_fn.name() == "SumBackward0"
    assert log == ["aten.mul.Tensor", "aten.exp.default", "aten.sum.dim_IntList"] or (
        "aten.mul.Tensor" in log and "aten.exp.default" in log
    )
    y.backward()
    assert type(x.grad) is Wrapped
    want = 2 * (2 * torch.arange(6.0).reshape(2, 3)).exp()
    assert torch.allclose(x.grad.inner, want)


def test_what_a_tensor_is():
    x = Wrapped(torch.ones(2, 3, dtype=torch.float64).t())
    assert (x.shape, x.dtype, x.stride(), x.device) == (
        (3, 2), torch.float64, (1, 3), torch.device("cpu"),
    )  # fmt: skip
    assert not x.is_meta and isinstance(x, torch.Tensor)
    assert repr(x).startswith("Wrapped(tensor(")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.t(), lambda x: x[0], lambda x: x[:, 1:], lambda x: x.view(-1),
        lambda x: x.clone(), lambda x: x.detach(), lambda x: x.to(torch.float64),
        lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x]), lambda x: x.max(1)[0],
        lambda x: x.softmax(-1), lambda x: torch.zeros_like(x), lambda x: x.sort()[0],
        lambda x: nn.functional.linear(x, torch.ones(4, 3)), lambda x: x @ x.t(),
        lambda x: x.mean(), lambda x: x.clamp(0, 1), lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x.unsqueeze(0).expand(2, 2, 3), lambda x: x.cumsum(0), lambda x: x.flip(0),
        lambda x: nn.functional.gelu(x), lambda x: nn.functional.layer_norm(x, (3,)),
        lambda x: x.clone().add_(1), lambda x: x.clone().mul_(2).fill_(3), lambda x: x.std(),
        lambda x: x.new_zeros(2, 3), lambda x: x.split(1)[0],
        lambda x: x.masked_fill(x > 0, 1), lambda x: x.repeat(2, 1),
    ],
    ids=range(30),
)  # fmt: skip
def test_families(call):
    plain = torch.randn(2, 3)
    out = call(Wrapped(plain))
    assert type(out) is Wrapped
    assert torch.allclose(out.inner, call(plain), equal_nan=True) and out.shape == call(plain).shape


def test_values(log):
    x = Wrapped(torch.tensor([3.0]))
    assert x.item() == 3 and bool(x > 2) and float(x) == 3
    assert "aten._local_scalar_dense.default" in log


def test_in_modules_and_optimizers():
    torch.manual_seed(0)
    plain = nn.Linear(3, 2)
    other = nn.Linear(3, 2)
    other.load_state_dict(plain.state_dict())
    other.weight = nn.Parameter(Wrapped(other.weight.detach().clone()))
    assert isinstance(other.weight, nn.Parameter) and isinstance(other.weight, Wrapped)
    for model in (plain, other):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    assert torch.allclose(other.weight.inner, plain.weight)


def test_without_a_dispatch_there_is_no_wrapper():
    class Bare(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="Bare must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Bare, (2,))


def test_nobody_answers():
    class Silent(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.Tensor._make_wrapper_subclass(Silent, (2,))
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 't\w*\._ops\.aten\.add\.T"):
        x + 1


def test_a_subclass_on_real_memory():
    class Counted(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return torch.Tensor.__torch_dispatch__(func, types, args, kwargs)

    x = torch.Tensor._make_subclass(Counted, torch.ones(2))
    assert (x + 1).tolist() == [2, 2] and Counted.calls == 1


def test_the_stack():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert _get_current_dispatch_mode() is not self
            return func(*args, **(kwargs or {})) * (2 if "add" in str(func) else 1)

    assert _get_current_dispatch_mode() is None
    with Mode() as outer, Mode() as inner:
        assert _get_current_dispatch_mode_stack() == [outer, inner]
        with _pop_mode_temporarily() as taken:
            assert taken is inner and _get_current_dispatch_mode() is outer
        with _disable_current_modes() as all_of_them:
            assert all_of_them == [outer, inner]
            assert (torch.ones(1) + 1).item() == 2
        assert (torch.ones(1) + 1).item() == 8
    assert _get_current_dispatch_mode() is None


def test_inner_tensors():
    x = Wrapped(torch.ones(2))
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(torch.ones(2))
    y = transform_subclass(x, lambda name, inner: inner * 3)
    assert type(y) is Wrapped and y.inner.tolist() == [3, 3]


def test_extension_names_that_programs_use():
    names = vars(__import__("tritorch.compat.native.dispatch", fromlist=["x"]))

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError("it is off")

    with Mode() as mode, names["_DisableTorchDispatch"]():
        assert torch.ones(2).add(1).tolist() == [2, 2]
        assert names["_len_torch_dispatch_stack"]() == 0
    names["_push_on_torch_dispatch_stack"](mode)
    assert names["_get_dispatch_stack_at"](0) is mode
    assert names["_pop_torch_dispatch_stack"]() is mode
    x = Wrapped(torch.ones(2))
    Wrapped.log.clear()
    with names["_DisableTorchDispatch"]():
        x + 1
    assert not Wrapped.log
