"""Arguments of the wrong type: what PyTorch says, of every published function."""

import collections
import inspect
import re

import pytest

import tritorch as torch
import tritorch.fft
import tritorch.nn.functional as F
import tritorch.special
from tritorch.core import gates

X = torch.ones(3)
SAID = {
    "inner(): argument 'other' (position 2) must be Tensor, not float": lambda: torch.inner(X, 2.0),
    "inner(): argument 'other' (position 1) must be Tensor, not float": lambda: X.inner(2.0),
    "inner(): argument 'other' must be Tensor, not str": lambda: torch.inner(X, other="a"),
    "linear(): argument 'input' (position 1) must be Tensor, not list": lambda: torch.nn.Linear(
        3, 2
    )([1, 2, 3]),
    "clone(): argument 'input' (position 1) must be Tensor, not int": lambda: torch.clone(1),
    "linalg_eigh(): argument 'input' (position 1) must be Tensor, not str": lambda: (
        torch.linalg.eigh("a")
    ),
    "special_erf(): argument 'input' (position 1) must be Tensor, not float": lambda: (
        torch.special.erf(2.0)
    ),
    "absolute(): argument 'input' (position 1) must be Tensor, not float": lambda: torch.absolute(
        2.0
    ),
    "lcm_(): argument 'input' (position 1) must be Tensor, not list": lambda: torch.lcm_([1], X),
    "gather(): argument 'index' (position 2) must be Tensor, not NoneType": lambda: X.gather(
        0, None
    ),
    "atan2(): argument 'other' (position 1) must be Tensor, not list": lambda: X.atan2([1.0]),
    "index_add(): argument 'source' (position 4) must be Tensor, not float": lambda: (
        torch.index_add(X, 0, torch.ones(2, 2), 2.0)
    ),
    "is_neg(): argument 'input' (position 1) must be Tensor, not NoneType": lambda: torch.is_neg(
        None
    ),
    "dropout_(): argument 'input' (position 1) must be Tensor, not str": lambda: torch.dropout_(
        "abc", 1.0, False
    ),
    "descriptor 'add' for 'tritorch._C.TensorBase' objects doesn't apply to a 'float' object": (
        lambda: torch.Tensor.add(2.0, X)
    ),
    "expand_as(): argument 'other' (position 1) must be Tensor, not list": lambda: X.expand_as([2]),
    "sin(): argument 'input' (position 1) must be Tensor, not NoneType": lambda: torch.sin(None),
    "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not int": lambda: torch.cat(
        3
    ),
    "expected Tensor as element 1 in argument 0, but got int": lambda: torch.cat([X, 2]),
    "expected Tensor as element 0 in argument 0, but got str": lambda: torch.meshgrid("a", X),
    "expected Tensor as element 1 in argument 0, but got float": lambda: torch.block_diag(X, 2.0),
}


SAID |= {
    "div_(): argument 'other' (position 1) must be Tensor, not list": lambda: X.div_([1.0]),
    "linalg_det(): argument 'A' (position 1) must be Tensor, not int": lambda: torch.linalg.det(1),
    "addmm(): argument 'input' (position 1) must be Tensor, not int": lambda: torch.addmm(1, X, X),
    "im2col(): argument 'input' (position 1) must be Tensor, not int": lambda: F.unfold(1, 2),
    "_unique2(): argument 'input' (position 1) must be Tensor, not int": lambda: torch.unique(1),
}


@pytest.mark.parametrize("message", SAID)
def test_what_is_said(message):
    with pytest.raises(TypeError) as raised:
        SAID[message]()
    assert str(raised.value) == message


def test_keywords_of_all_overloads_are_taken():
    x = torch.eye(2)
    assert torch.linalg.eigvalsh(input=x).equal(torch.linalg.eigvalsh(A=x))
    assert torch.det(input=x) == torch.det(A=x) == 1
    assert torch.swapaxes(x, axis0=0, axis1=1).equal(x)
    assert len(torch.hsplit(x, sections=2)) == len(torch.tensor_split(x, indices=[1], dim=1)) == 2
    assert torch.neg_(input=x.clone()).equal(-x)
    assert torch.cholesky_solve(x, input2=x).equal(x)


def test_errors_of_callbacks_pass_through():
    with pytest.raises(KeyError):
        X.clone().apply_(lambda value: {}[value])
    y = torch.ones(2, requires_grad=True) * 1
    y.register_hook(lambda g: g.nothing_like_that)
    with pytest.raises(AttributeError, match="nothing_like_that"):
        y.sum().backward()


# ---- every published function, with each of its tensors wrong ------------------------------------

WRONG = (2.5, [1.0, 2.0], None, "abc")
FILL = {"int": 1, "float": 1.0, "bool": False, "str": "mean", "Ints": (1,), "Sequence[int]": (1,)}
LEFT_OUT = {"set_", "share_memory_", "map_", "map2_", "apply_", "register_hook", "__setstate__"}


def calls():
    """(gate, arguments) with one argument wrong where the function wants a tensor."""
    for group in gates.GATES.values():
        for name, gate in group.items():
            if name in LEFT_OUT:
                continue
            parameters = [
                p
                for p in inspect.signature(gate.__wrapped__).parameters.values()
                if p.kind is p.POSITIONAL_OR_KEYWORD
            ]
            wants = [
                i
                for i, p in enumerate(parameters)
                if p.annotation == "Tensor" or p.name in ("self", "input", "other")
            ]
            required = max([i + 1 for i, p in enumerate(parameters) if p.default is p.empty] or [0])
            for i in wants:
                for wrong in WRONG:
                    filled = [
                        torch.ones(2, 3) if k in wants or p.annotation == "Any"
                        else FILL.get(str(p.annotation)) if p.default is p.empty else p.default
                        for k, p in enumerate(parameters[: max(required, i + 1)])
                    ]  # fmt: skip
                    yield gate, [*filled[:i], wrong, *filled[i + 1 :]]


@pytest.mark.filterwarnings("ignore")
def test_no_function_fails_inside():
    """No AttributeError, KeyError or AssertionError: an error says which argument it was."""
    expected = (TypeError, ValueError, RuntimeError, IndexError)
    found, count = collections.Counter(), 0
    for gate, arguments in calls():
        count += 1
        try:
            gate(*arguments)
        except expected:
            pass
        except Exception as error:
            found[f"{gate!r} {type(error).__name__}: {str(error)[:60]}"] += 1
    assert count > 5000 and not found, "\n".join(found)


def test_functional_losses_name_the_target():
    with pytest.raises(
        TypeError, match=r"argument 'target' \(position 2\) must be Tensor, not list"
    ):
        torch.nn.CrossEntropyLoss()(X, [0, 1])
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        F.mse_loss(X, 2.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: x.size("N"), "size(): argument 'dim' (position 1) must be int, not str"),
        (lambda x: x.stride(0.5), "stride(): argument 'dim' (position 1) must be int, not float"),
        (lambda x: x.cumsum("N"), "cumsum(): argument 'dim' (position 1) must be int, not str"),
        (lambda x: torch.cumsum(x, "N"), "cumsum(): argument 'dim' (position 2) must be int, n"),
        (lambda x: x.cumsum(dim="N"), "cumsum(): argument 'dim' must be int, not str"),
        (lambda x: x.transpose(0, None), "transpose(): argument 'dim1' (position 2) must be int, "),
        (lambda x: x.flatten("N", "C"), "flatten(): argument 'start_dim' (position 1) must be int"),
        (lambda x: x.amax("N"), "amax(): argument 'dim' (position 1) must be tuple of ints, not s"),
        (lambda x: x.flip(["N"]), "flip(): argument 'dims' (position 1) must be tuple of ints, but"
            " found element of type str at pos 0"),
        (lambda x: x.flip([0, "N"]), "flip(): argument 'dims' failed to unpack the object at pos 2 "
            'with error "type must be tuple of ints,but got str"'),
        (lambda x: torch.stack([x], "N"), "stack(): argument 'dim' (position 2) must be int, not"),
        (lambda x: x.sum("N"), "sum() received an invalid combination of arguments - got (str), but"
            " expected one of:\n * (*, tritorch.dtype dtype = None)\n * (tuple of ints dim, bool"),
        (lambda x: x.sum(dim="N"), "sum() received an invalid combination of arguments - got (dim=s"
            "tr, ), but"),
        (lambda x: torch.max(x, "N"), "max() received an invalid combination of arguments - got ("
            "Tensor, str), but expected one of:\n * (Tensor input)\n * (Tensor input, int dim, bo"),
        (lambda x: x.squeeze_("N"), "squeeze_() received an invalid combination of arguments - go"),
    ],
)  # fmt: skip
def test_dims_that_are_no_numbers(call, said):
    with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
        call(torch.ones(2, 3))


def test_tensors_have_no_names():
    """As since PyTorch 2.13: dims have numbers alone."""
    with pytest.raises(TypeError):
        torch.zeros(2, names=("N",))
    assert not hasattr(torch.Tensor, "names") and not hasattr(tritorch.Tensor, "rename")
