"""Dispatch modes see every operator, as a call of its schema; what they answer is the result."""

from __future__ import annotations

import contextlib
import importlib

import numpy as np
import pytest
from table import CASES
from test_schema import is_a
from test_table import call, leaves, outputs

import tritorch as torch
from tritorch import nn
from tritorch.core import dispatching
from tritorch.core.published import INTERNAL
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.overloads import bind, records
from tritorch.schema import table, types


class Seen:
    """A mode that notes what it sees and computes it."""

    def __init__(self):
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs))
        return func(*args, **(kwargs or {}))

    def __enter__(self):
        dispatching.enter(self)
        return self

    def __exit__(self, *exception):
        dispatching.leave()


def misfits(func, args, kwargs):
    """The arguments of a call that are not of its schema's types."""
    values = bind(func._schema, args, kwargs or {})
    wrong = []
    for argument in func._schema.arguments:
        kind, value = argument.real_type, values[argument.name]
        number = types.OptionalType(types.NumberType.get())
        if not is_a(value, kind, argument.N) and not is_a(value, number):
            wrong.append(f"{argument.name}: {value!r} is no {kind}")
    return wrong


@pytest.mark.parametrize("case", [c for c in CASES if "rrelu" not in c.name], ids=str)
def test_a_mode_that_computes_changes_nothing(case):
    """Values, gradients and strides; and everything that is computed is seen."""

    def run():
        xs = leaves(case)
        torch.manual_seed(0)
        outs = outputs(call(case, xs))
        wanted = [out for out in outs if out.requires_grad]
        grads = torch.autograd.grad(wanted, xs, [torch.ones_like(o) for o in wanted],
                                    allow_unused=True) if wanted else ()  # fmt: skip
        return [*outs, *(g for g in grads if g is not None)]

    want = run()
    with Seen() as seen:
        got = run()
    assert seen.calls
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12, 1e-12)
        assert a.dtype == b.dtype and a.stride() == b.stride()
        assert a.requires_grad == b.requires_grad
        if a.grad_fn is not None and not case.name.startswith("embedding_bag"):  # decomposed there
            assert a.grad_fn.name() == b.grad_fn.name()
    assert not [(str(f), w) for f, a, k in seen.calls if (w := misfits(f, a, k))]


def every_maker():
    """A call of each factory and of each draw."""
    x = torch.ones(3, 4)
    for name in ("empty", "zeros", "ones", "rand", "randn"):
        getattr(torch, name)(2, 3)
        getattr(torch, f"{name}_like")(x.t())
    torch.full((2,), 3.5)
    torch.full_like(x, 2)
    torch.empty_strided((2, 3), (1, 2))
    torch.arange(1, 7, 2)
    torch.linspace(0, 1, 5)
    torch.logspace(0, 1, 5)
    torch.eye(2, 3)
    torch.tril_indices(3, 3)
    torch.triu_indices(3, 3)
    torch.randint(3, (2,))
    torch.randperm(5)
    torch.normal(0.5, 2.0, (3,))
    torch.bernoulli(x / 2)
    torch.multinomial(x, 2)
    nn.functional.dropout(x)
    x.uniform_(1, 2).normal_(0, 3).exponential_().cauchy_().geometric_(0.5).log_normal_()
    x.random_()
    x.random_(4)
    x.random_(2, 5)
    x.bernoulli_(0.5)
    x.bernoulli_(torch.full((3, 4), 0.5))
    x.copy_(torch.ones(4))
    x.fill_(torch.tensor(2.0))
    x.index_put_((torch.tensor([0]),), torch.tensor(1.0))


def test_factories_and_draws_are_seen():
    with Seen() as seen:
        every_maker()
    assert not [(str(f), w) for f, a, k in seen.calls if (w := misfits(f, a, k))]
    called = {(f._schema.name, f._schema.overload_name) for f, _, _ in seen.calls}
    kinds = ("factory", "random", "in_place")
    of_kind = {op.name for op in OPERATORS.values() if op.kind in kinds}
    found = {records()[key].name for key in called if key in records()}
    found |= {"zeros_like", "ones_like"} if ("aten::ones_like", "") in called else set()
    # In place, of a number: one record has several overloads.
    assert of_kind - found <= {"fill", "rrelu_"}


def test_what_is_overwritten_has_no_gradient():
    filled = [
        lambda x: x.uniform_(), lambda x: x.normal_(), lambda x: x.exponential_(),
        lambda x: x.cauchy_(), lambda x: x.geometric_(0.5), lambda x: x.log_normal_(),
        lambda x: x.random_(3), lambda x: x.random_(), lambda x: x.bernoulli_(0.5),
        lambda x: x.bernoulli_(torch.ones(2)),
    ]  # fmt: skip
    for fill in filled:
        x = torch.ones(2, requires_grad=True)
        y = fill(x * 2)
        assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0], y.grad_fn


def test_draws_are_the_same_inside_of_a_mode():
    def drawn():
        torch.manual_seed(3)
        x = torch.ones(3, 4).uniform_()
        return [torch.rand(3), torch.randn(2), torch.randint(9, (4,)), torch.randperm(5), x,
                torch.bernoulli(x), torch.multinomial(x, 2)]  # fmt: skip

    want = drawn()
    with Seen():
        got = drawn()
    assert all(a.equal(b) for a, b in zip(got, want))


def test_factories_say_what_they_make():
    """`infer` of each equals the tensor that it makes."""
    cpu = torch.device("cpu")
    params = {
        "empty": ((2, 3), torch.float32, cpu), "zeros": ((2, 3), torch.int8, cpu),
        "ones": ((2,), torch.bool, cpu), "full": ((2,), 3, torch.float64, cpu),
        "empty_strided": ((2, 3), (1, 2), torch.float32, cpu),
        "arange": (1, 7, 2, torch.int64, cpu), "linspace": (0, 1, 5, torch.float32, cpu),
        "logspace": (0, 1, 5, 10.0, torch.float32, cpu), "eye": (2, 3, torch.float32, cpu),
        "tril_indices": (3, 3, 0, torch.int64, cpu), "triu_indices": (3, 3, 0, torch.int64, cpu),
        "rand": ((2,), torch.float32, cpu, None), "randn": ((2,), torch.float64, cpu, None),
        "normal": ((2,), 0.0, 1.0, torch.float32, cpu, None),
        "randint": ((2,), 0, 5, torch.int64, cpu, None),
        "randperm": (5, torch.int64, cpu, None),
        "tensor": (((1, 2), (3, 4)), torch.int16, cpu), "flat_offsets": ((2, 3), (1, 4), 5, cpu),
        "choices": (5, 3, True, cpu),
    }  # fmt: skip
    makers = {op.name for op in OPERATORS.values() if not op.inputs}
    assert makers == set(params)
    for name, given in params.items():
        spec, made = OPERATORS[name].infer((), given), OPERATORS[name](*given)
        assert (spec.shape, spec.dtype, spec.strides) == (
            tuple(made.shape), made.dtype, made.stride(),
        )  # fmt: skip


def test_a_training_step_is_seen_and_the_same():
    def step():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for _ in range(2):
            loss = nn.functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [loss.item(), *(p.detach().numpy().copy() for p in model.parameters())]

    want = step()
    with Seen() as seen:
        got = step()
    assert all(np.array_equal(a, b) for a, b in zip(got, want))
    names = {str(f) for f, _, _ in seen.calls}
    assert {"aten.linear.default", "aten.gelu.default", "aten.mm.default"} <= names


OPTIMIZERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}), ("Adam", {}),
    ("AdamW", {"amsgrad": True}), ("RMSprop", {}), ("Adagrad", {}), ("Adadelta", {}),
    ("Adamax", {}), ("NAdam", {}), ("RAdam", {}), ("ASGD", {}), ("Rprop", {}),
]  # fmt: skip


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=lambda v: v if type(v) is str else "")
def test_steps_of_optimizers_are_seen_and_the_same(name, options):
    """The formula by operators gives the bits of the formula by blocks."""

    def trained(mode):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(40, 20), nn.Tanh(), nn.Linear(20, 2))
        optimizer = getattr(torch.optim, name)(model.parameters(), **options)
        for _ in range(3):
            x = torch.randn(8, 40)
            with mode:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    seen = Seen()
    for got, want in zip(trained(seen), trained(contextlib.nullcontext())):
        assert np.array_equal(got, want)
    assert sum(f._schema.is_mutable for f, _, _ in seen.calls) >= 12


def test_modes_nest_and_threads_do_not_see_each_others():
    import threading

    x = torch.ones(2)
    with Seen() as outer, Seen() as inner:
        x + 1
        there = threading.Thread(target=lambda: x * 2)
        there.start()
        there.join()
    assert [str(f) for f, _, _ in inner.calls] == [str(f) for f, _, _ in outer.calls]
    assert [str(f) for f, _, _ in inner.calls] == ["aten.add.Tensor"]
    assert "_a" not in vars(torch.Tensor)


def test_operators_are_objects():
    add = torch.ops.aten.add
    assert str(add) == "aten.add" and str(add.Tensor) == "aten.add.Tensor"
    assert repr(add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert add.Tensor._schema.name == "aten::add" and add.Tensor.name() == "aten::add.Tensor"
    assert {"Tensor", "Scalar", "out"} <= set(add.overloads())
    assert torch.ops.aten.sum.default(torch.ones(3)).item() == 3
    assert add(torch.ones(2), 1).tolist() == [2, 2]
    assert torch.ops.aten.view.default.is_view and not add.Tensor.is_view
    with pytest.raises(AttributeError, match="has no overload name 'foo'"):
        add.foo  # noqa: B018
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'foo'"):
        torch.ops.aten.foo  # noqa: B018
    with pytest.raises(RuntimeError, match="missing value for argument 'self'"):
        add.Tensor()
    with pytest.raises(TypeError, match="argument 'other'|must be Tensor"):
        add.Tensor(torch.ones(2), "a")


def test_internal_operators_are_atens():
    importlib.import_module("tritorch.compat.legacy_operators.internal")
    names = set(INTERNAL) - {"answered_number", "answered_question"}
    assert len(names) > 40
    for name in names:
        full, _, overload = name.partition(".")
        space, _, stem = full.rpartition("::")
        known = table.overloads(stem, space or "aten")
        assert known and (not overload or overload in known), name
