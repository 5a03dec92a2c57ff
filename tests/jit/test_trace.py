"""Traces: sizes that are followed, modules, warnings of what a trace cannot follow."""

import pytest

import tritorch as torch
from tritorch import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(x.size(0), -1),
        lambda x: torch.zeros(x.shape) + 1,
        lambda x: torch.arange(x.shape[0]) * 2,
        lambda x: x.reshape(x.shape[0] * x.shape[1] // 3, 3 * x.shape[2]),
        lambda x: x[:, 1:, 0] + x[..., None, 1].sum(),
        lambda x: torch.cat([x, x.new_ones(x.shape)]).relu_(),
        lambda x: x.max(dim=1)[0] + x.max(dim=1).values,
        lambda x: nn.functional.dropout(nn.functional.softmax(x, dim=-1), 0.0),
        lambda x: torch.einsum("abc,abd->acd", x, x),
        lambda x: (x @ x.transpose(1, 2)).masked_fill(x.sum() > 1e9, 0),
    ],
)
def test_traces_follow_sizes(function):
    traced = torch.jit.trace(function, torch.randn(2, 3, 4))
    for shape in ((2, 3, 4), (5, 3, 4), (3, 6, 4)):
        x = torch.randn(shape)
        assert traced(x.clone()).equal(function(x.clone()))


def test_a_module_s_parameters_are_attributes():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    traced = torch.jit.trace(module, torch.randn(2, 3))
    assert [n for n, _ in traced.named_parameters()] == [n for n, _ in module.named_parameters()]
    x = torch.randn(5, 3)
    assert traced(x).equal(module(x))
    with torch.no_grad():
        module[0].weight.zero_()
    assert traced(x).equal(module(x))  # one parameter, not two
    traced(x).sum().backward()
    assert module[0].bias.grad is not None


def test_several_methods_and_containers():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x, pair):
            return self.linear(x) + pair[0], (pair[1], x)

        def other(self, x):
            return self.linear(x) * 2

    module, x = Two(), torch.ones(1, 2)
    traced = torch.jit.trace_module(module, {"forward": (x, (x, x)), "other": x})
    assert traced(x, (x, x))[0].equal(module(x, (x, x))[0])
    assert traced.other(x).equal(module.other(x))
    made = torch.jit.trace(lambda d: d["a"] + d["b"], ({"a": x, "b": x},))
    assert made({"a": x, "b": 2 * x}).equal(3 * x)
    named = torch.jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": x, "x": 2 * x})
    assert named(y=x, x=3 * x).equal(2 * x)


def test_scripted_parts_keep_their_branches():
    @torch.jit.script
    def signed(x):
        if bool(x.sum() > 0):
            return x
        return -x

    traced = torch.jit.trace(lambda x: signed(x) * 2, torch.ones(2))
    assert traced(-torch.ones(2)).tolist() == [2, 2]
    assert "CallFunction" in str(traced.graph)


def test_what_a_trace_cannot_follow_is_said():
    def branches(x):
        return x if x.sum() > 0 else -x

    with pytest.warns(torch.jit.TracerWarning, match="Converting a tensor to a Python boolean"):
        torch.jit.trace(branches, torch.ones(2))
    with pytest.warns(torch.jit.TracerWarning, match="does not match"):
        torch.jit.trace(lambda x: x + torch.rand(()).item(), torch.ones(1))
    with pytest.raises(RuntimeError, match="list at the output of the tracer"):
        torch.jit.trace(lambda x: [x, x], torch.ones(1))
    loose = torch.jit.trace(lambda x: [x, x], torch.ones(1), strict=False)
    assert [t.item() for t in loose(torch.ones(1))] == [1, 1]
    with pytest.raises(RuntimeError, match="cannot be traced"):
        torch.jit.trace(lambda x, s: x, (torch.ones(1), object()))


def test_tracing_ends_with_the_trace():
    def fails(x):
        assert torch.jit.is_tracing()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        torch.jit.trace(fails, torch.ones(1))
    assert not torch.jit.is_tracing() and type(torch.ones(2, 3).shape) is torch.Size
