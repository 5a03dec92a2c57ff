"""Tensors of no dims where ATen's schemas have a number (Scalar, float): every such argument."""

import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch.core import arguments, gates
from tritorch.ops.record import refusals

FAMILY = sorted(
    {
        (module, name, parameter.name)
        for module, published in gates.GATES.items()
        for name, gate in published.items()
        for parameter in arguments._parameters(gate.__wrapped__)
        if parameter.name in refusals.numbers(arguments._shown(gate))
    }
)

# Calls with a number `a`, which may be a tensor; x and y are tensors of three elements.
CALLS = {
    "add": lambda x, y, a: torch.add(x, y, alpha=a),
    "add_": lambda x, y, a: x.clone().add_(y, alpha=a),
    "sub": lambda x, y, a: x.sub(y, alpha=a),
    "rsub": lambda x, y, a: torch.rsub(x, y, alpha=a),
    "addcmul": lambda x, y, a: torch.addcmul(x, y, y, value=a),
    "addcdiv": lambda x, y, a: x.addcdiv(x, y, value=a),
    "addr": lambda x, y, a: torch.addr(torch.ones_like(x)[:, None], x, y, beta=a, alpha=a),
    "addmm": lambda x, y, a: torch.addmm(x, x[:, None], y[None], beta=a, alpha=a),
    "nan_to_num": lambda x, y, a: torch.nan_to_num(x / 0 + y, nan=a, posinf=a),
    "clamp's lower": lambda x, y, a: torch.clamp(x, a, 3.5),
    "clamp's upper": lambda x, y, a: x.clone().clamp_(-3, a),
    "masked_fill": lambda x, y, a: x.masked_fill(x > 0, a),
    "full": lambda x, y, a: torch.full((2,), a, device=x.device),
    "new_full": lambda x, y, a: x.new_full((2,), a),
    "pow": lambda x, y, a: torch.pow(y, a),
    "elu": lambda x, y, a: F.elu(x, a),
    "softplus": lambda x, y, a: F.softplus(x, beta=a),
    "threshold": lambda x, y, a: F.threshold(x, a, a),
    "pad": lambda x, y, a: F.pad(x, (1, 1), value=a),
    "index_add": lambda x, y, a: x.index_add(0, torch.tensor([0], device=x.device), y[:1], alpha=a),
    "scatter": lambda x, y, a: x.scatter(0, torch.tensor([0], device=x.device), value=a),
    "dist": lambda x, y, a: torch.dist(x, y, a),
    "norm": lambda x, y, a: torch.linalg.norm(x, a),
    "std": lambda x, y, a: torch.std(x, dim=0, correction=a - 1),
    "smooth_l1_loss": lambda x, y, a: F.smooth_l1_loss(x, y, beta=a),
    "_foreach_add": lambda x, y, a: torch._foreach_add([x], [y], alpha=a)[0],
    "_foreach_pow": lambda x, y, a: torch._foreach_pow([y], a)[0],
    "_foreach_addcmul": lambda x, y, a: torch._foreach_addcmul([x], [y], [y], value=a)[0],
}


def test_family_is_large():
    assert len(FAMILY) > 200
    assert ("tritorch", "addcmul", "value") in FAMILY


@pytest.mark.parametrize(("module", "name", "parameter"), FAMILY)
def test_tensor_with_gradient_is_no_number(module, name, parameter):
    gate = gates.GATES[module][name]
    word = refusals.numbers(arguments._shown(gate))[parameter]
    for value in (torch.ones((), requires_grad=True), torch.ones(1)):
        with pytest.raises(TypeError) as raised:
            gate(**{parameter: value})
        said = f"{arguments._shown(gate)}(): argument '{parameter}' must be {word}, not Tensor"
        assert str(raised.value) == said


@pytest.mark.device
@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("name", CALLS)
def test_tensor_stands_for_its_number(name, where):
    call = CALLS[name]
    x = torch.tensor([0.5, -1.5, 2.0], device=where)
    y = torch.tensor([1.0, 2.0, 3.0], device=where)
    compiled = torch.compile(call)
    for number in (2.0, 3.0, 2.0):
        expected = call(x, y, number)
        for device in {"cpu", where}:
            a = torch.tensor(number, device=device)
            assert call(x, y, a).equal(expected)
            assert compiled(x, y, a).equal(expected)


def test_refusals_of_numbers():
    x = torch.ones(3)
    for a, said in (
        (torch.tensor(2j), "For non-complex input tensors, argument alpha must not be a complex"),
        (torch.tensor(True), "Boolean alpha only supported for Boolean results."),
    ):
        with pytest.raises(RuntimeError, match=said):
            torch.add(x, x, alpha=a)
    for a in (None, "2"):
        with pytest.raises(TypeError, match=f"must be Number, not {type(a).__name__}"):
            torch.add(x, x, alpha=a)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.nan_to_num(x, nan=torch.tensor(2j))
    with pytest.raises(RuntimeError, match="packed scalar Tensor to be of dimension 1"):
        torch._foreach_addcmul([x], [x], [x], torch.tensor(2.0))


def test_gradients_are_of_the_other_arguments():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    torch.add(x, y, alpha=torch.tensor(3.0)).sum().backward()
    assert x.grad.tolist() == [1, 1] and y.grad.tolist() == [3, 3]


def test_modes_see_the_tensor():
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.extend(map(type, (kwargs or {}).values()))
            return function(*args, **(kwargs or {}))

    a = torch.tensor(2.0)
    with Mode():
        torch.add(a, a, alpha=a)
    assert seen == [torch.Tensor]
