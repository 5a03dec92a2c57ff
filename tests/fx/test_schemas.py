"""What fx knows of functions' and modules' arguments."""

import inspect

import pytest

import tritorch as torch
from tritorch import fx, nn
from tritorch.fx.operator_schemas import (
    check_for_mutable_operation,
    get_signature_for_torch_op,
    normalize_function,
    normalize_module,
    type_matches,
)

F = nn.functional


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (torch.linalg.vector_norm, "self ord dim keepdim dtype"),
        (torch.sparse.mm, "sparse dense"),
        (F.logsigmoid, "self"),
        (F.avg_pool1d, "self kernel_size stride padding ceil_mode count_include_pad"),
        (F.ctc_loss, None),  # its reduction is a word: a function of Python's over the operator
        (F.relu, None),  # may write into its input
    ],
)
def test_signatures_are_schemas(function, names):
    signatures = get_signature_for_torch_op(function)
    if names is None:
        assert signatures is None
    else:
        wanted = names.replace("self", "input").split()
        assert any(list(each.parameters) == wanted for each in signatures)


def test_calls_get_the_names_of_their_arguments():
    x = torch.ones(2, 3)
    given = normalize_function(
        torch.add, (x, x), {"alpha": 2}, (torch.Tensor,) * 2, {"alpha": int},
        normalize_to_only_use_kwargs=True,
    )  # fmt: skip
    assert given.args == () and set(given.kwargs) == {"input", "other", "alpha"}
    given = normalize_function(F.ctc_loss, (x, x, x, x, 1, "sum"), {})
    assert given.args[:6] == (x, x, x, x, 1, "sum") or given.kwargs["reduction"] == "sum"
    with pytest.raises(RuntimeError, match="mutable operation aten::abs.out"):
        check_for_mutable_operation(torch.abs, (x,), {"out": x})
    assert type_matches(list[int], list[int]) and not type_matches(int, str)


@pytest.mark.parametrize(
    "module",
    [
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.0),
        nn.ReflectionPad1d(1),
        nn.RReLU(),
        nn.Linear(4, 4),
    ],
    ids=lambda m: type(m).__name__,
)
def test_modules_arguments_have_names(module):
    """A module's forward has the arguments of its function, and no others, however it is made."""
    assert list(inspect.signature(module.forward).parameters) == ["input"]
    owner = next(c for c in type(module).__mro__ if "forward" in vars(c))  # or a base of padding
    assert (
        owner is not nn.Module and type(module).forward.__qualname__ == f"{owner.__name__}.forward"
    )
    traced = fx.symbolic_trace(nn.Sequential(module))
    node = next(n for n in traced.graph.nodes if n.op == "call_module")
    given = normalize_module(traced, node.target, node.args, node.kwargs, True)
    assert given == node.normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert given.args == () and list(given.kwargs) == ["input"]
    node.args, node.kwargs = given
    x = torch.rand(1, 4, 4)
    module.eval()
    traced.recompile()
    assert traced.eval()(x).equal(module(x))


def test_a_module_says_what_it_takes():
    with pytest.raises(TypeError, match=r"MaxPool2d.forward\(\) takes 2 positional arguments"):
        nn.MaxPool2d(2)(torch.ones(1, 4, 4), 3)


def test_arguments_by_place():
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    hist, edges = torch.histogramdd(x, [2, 2], None, torch.tensor([1.0, 3.0]), False)
    assert hist.tolist() == [[0.0, 1.0], [3.0, 0.0]] and len(edges) == 2
    with pytest.raises(TypeError, match="divisor_override"):
        F.avg_pool1d(torch.ones(1, 1, 4), 2, divisor_override=3)


def test_searching_for_nothing():
    for rows, values in (((0, 3), (0, 2)), ((2, 3), (2, 0)), ((0, 0), (0, 0))):
        found = torch.searchsorted(torch.zeros(rows), torch.zeros(values))
        assert found.shape == values and found.dtype is torch.int64
