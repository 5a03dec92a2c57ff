"""Every public function refuses a nested tensor, or gives what it gives of each component."""

import warnings

import pytest

import tritorch as torch
from tests.nested.conftest import components
from tritorch.core.gates import GATES

# They draw numbers, make tensors of sizes, or end in another process, and say nothing of values.
OTHER = (
    "rand", "dropout", "bernoulli", "multinomial", "poisson", "_like", "rrelu", "normal", "gumbel",
    "lowrank", "save", "vmap", "compile", "empty", "_foreach", "backward", "new", "_weight_norm",
)  # fmt: skip
# Of three dims they are other functions than of two (`fliplr` turns the second around), and
# `unbind` gives the components themselves.
OF_DIMS = {"atleast_3d", "fliplr", "rot90", "multilabel_soft_margin_loss", "unbind"}


def functions():
    for module in ("tritorch", "tritorch.nn.functional"):
        for name, gate in sorted(GATES[module].items()):
            if name not in OF_DIMS and not any(other in name for other in OTHER):
                yield f"{module}.{name}", gate


def tensors(result):
    found = result if isinstance(result, tuple) else (result,)
    return [t for t in found if isinstance(t, torch.Tensor)]


def same(a, b):
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), equal_nan=True)


def is_of_components(found, place, parts, function, args):
    """Whether a result is nested of, stacked of, or of all the components."""
    if found.is_nested or found.ndim:
        wanted = [tensors(function(part.clone(), *args))[place] for part in parts]
        if found.is_nested:
            return all(map(same, found.unbind(), wanted))
        return same(found, torch.stack(wanted))
    return same(found, tensors(function(torch.cat(parts), *args))[place])


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
@pytest.mark.parametrize("args", [(), (-1,), (0.5,)], ids=str)
def test_functions_are_those_of_components(layout, args):
    parts = [t.abs() * 0.2 + 0.1 for t in components(3, lengths=(3, 2, 4))]
    wrong, computed = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in functions():
            try:
                result = tensors(function(torch.nested.nested_tensor(parts, layout=layout), *args))
            except Exception:  # the arguments are not every function's: any refusal will do
                continue
            for place, found in enumerate(result):
                computed += 1
                try:
                    right = is_of_components(found, place, parts, function, args)
                except Exception as error:
                    right, name = False, f"{name}: {error!r}"
                if not right:
                    wrong.append(name)
    assert not wrong
    assert args or computed > 100
