"""Exported programs as modules: names, signatures, inputs, state."""

import copy
import pickle

import pytest

import tritorch as torch
from tritorch import fx, nn
from tritorch.export import Dim, FlatArgsAdapter, export, unflatten
from tritorch.export.unflatten import _disable_interpreter


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2, 3), 2.0))
        self.register_buffer("shift", torch.ones(2, 3))

    def forward(self, x):
        return x * self.weight + self.shift


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scale()

    def forward(self, x):
        return self.inner(x) * 2 + self.inner.shift


def test_a_module_of_several_names_is_one():
    class Aliased(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Scale()
            self.again = self.first
            norm = nn.LayerNorm(3)
            self.tower = nn.Sequential(norm, nn.ReLU(), norm)

        def forward(self, x):
            return self.tower(self.again(self.first(x)))

    module, x = Aliased(), torch.randn(2, 3)
    made = unflatten(export(module, (x,)))
    assert torch.allclose(made(x), module(x))
    names = [name for name, _ in made.named_modules(remove_duplicate=False)]
    assert names == [name for name, _ in module.named_modules(remove_duplicate=False)]
    assert made.first is made.again
    assert getattr(made.tower, "0") is getattr(made.tower, "2")


def test_nodes_say_what_they_give():
    class Several(nn.Module):
        def forward(self, x):
            return x + x, x * x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.several, self.linear = Several(), nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(sum(self.several(x)))

    made = unflatten(export(Outer(), (torch.randn(2, 3),)))
    for module in made.modules():
        for node in module.graph.nodes:
            assert node.op == "output" or node.meta.get("val") is not None
    operations = [node.op for node in made.linear.graph.nodes]
    assert operations == ["placeholder", "get_attr", "get_attr", "call_function", "output"]


def test_inputs_are_looked_at():
    made = unflatten(export(Scale(), (torch.randn(2, 3),)))
    with pytest.raises(RuntimeError, match=r"\*args\[0\].shape\[0\] to be equal to 2, but got 1"):
        made(torch.randn(1, 3))
    with pytest.raises(RuntimeError, match=r"number of dimensions in input at \*args\[0\].shape"):
        made(torch.randn(3))
    with pytest.raises(TypeError, match="no flat args adapter"):
        made(torch.randn(2, 3), torch.randn(2))

    class Sum(nn.Module):
        def forward(self, x, y, factor):
            return x.sum() + y.sum() * factor

    batch = Dim("batch", min=3, max=8)
    shapes = {"x": {0: batch}, "y": {0: 2 * batch}, "factor": None}
    program = export(Sum(), (torch.ones(4), torch.ones(8)), {"factor": 2.0}, dynamic_shapes=shapes)
    made = unflatten(program)
    assert made(torch.ones(6), torch.ones(12), factor=2.0) == 30
    for x, y, factor, said in (
        (9, 18, 2.0, r"x?.shape\[0\] to be <= 8, but got 9"),
        (2, 4, 2.0, "to be >= 3, but got 2"),
        (4, 9, 2.0, r"\*args\[1\].shape\[0\] to be equal to 8, but got 9"),
        (4, 8, 3.0, "'factor' to be equal to 2.0, but got 3.0"),
    ):
        with pytest.raises(RuntimeError, match=said):
            made(torch.ones(x), torch.ones(y), factor=factor)


def test_an_adapter_makes_arguments_fit():
    class First(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[: target_spec.num_leaves]

    module, x = Scale(), torch.randn(2, 3)
    made = unflatten(export(module, (x,)), First())
    assert torch.allclose(made(x, torch.ones(5)), module(x))
    with pytest.raises(RuntimeError, match="at <unknown location>.shape"):
        made(torch.randn(7, 3), 1)


def test_numbers_that_follow_are_computed_where_a_signature_is_kept():
    class Half(nn.Module):
        def forward(self, x, y):
            return y[: x.size(0) // 2]

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept, self.plain = Half(), Half()

        def forward(self, x, y):
            return y[x.size(0) // 2 :] + self.kept(x, y) + self.plain(x, y)

    even = 2 * Dim("half", max=64)
    given = torch.ones(10), torch.ones(10)
    program = export(
        Halves(), given, dynamic_shapes=((even,), (even,)), preserve_module_call_signature=("kept",)
    )
    made = unflatten(program)
    size = torch.ops.aten.sym_size.int
    counts = [
        [node.target for node in module.graph.nodes].count(size)
        for module in (made, made.kept, made.plain)
    ]
    assert counts == [1, 1, 0]
    given = torch.randn(12), torch.randn(12)
    assert torch.allclose(made(*given), Halves()(*given))
    with pytest.raises(RuntimeError, match=r"= 11 to be of the form 2\*s0, where s0 is an integer"):
        made(torch.ones(11), torch.ones(11))
    with pytest.raises(AssertionError, match=r"Guard failed: .* == 2\*s0"):
        program.module()(torch.ones(11), torch.ones(11))


def test_what_was_unflattened_is_a_module_like_others():
    module, x = Doubled(), torch.randn(2, 3)
    made = unflatten(export(module, (x,)))
    wanted = module(x)
    assert torch.allclose(export(made, (x,)).module()(x), wanted)
    assert torch.allclose(fx.symbolic_trace(made, concrete_args=(fx.PH,))(x), wanted)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.allclose(copied(x), wanted)
        copied.load_state_dict(made.state_dict())
    made(x).sum().backward()
    assert made.inner.weight.grad is not None
    made.inner = torch.compile(made.inner, fullgraph=True)
    assert torch.allclose(made(x), wanted)


def test_graphs_run_as_code():
    module, x = Doubled(), torch.randn(2, 3)
    with _disable_interpreter():
        made = unflatten(export(module, (x,)))
    assert not made._run_with_interpreter and not made.inner._run_with_interpreter
    assert unflatten(export(module, (x,)))._run_with_interpreter
    assert torch.allclose(made(x), module(x))
    assert torch.allclose(made.inner(x), module.inner(x))
    traced = fx.symbolic_trace(made, concrete_args=(x,))
    assert torch.allclose(traced(x), module(x))
