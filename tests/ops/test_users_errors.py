"""An error that a program's own code raises while an operator computes or records arrives, and that
code has run once: no fast path takes it for its own, and computes again in another way."""

import ast
import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from table import CASES

import tritorch
import tritorch.nn.functional as F
from tritorch.autograd.graph import saved_tensors_hooks
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import Pointwise

ERRORS = (ValueError, TypeError, AttributeError, RuntimeError, KeyError, IndexError, OverflowError)
PACKAGE = Path(tritorch.__file__).parent


class Raiser:
    """A callback that raises, and counts its calls."""

    def __init__(self, kind: type[Exception]) -> None:
        self.error, self.calls = kind("the program's own"), 0

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.calls += 1
        raise self.error


class Passer:
    """A callback that gives back what it is given, and counts its calls."""

    calls = 0

    def __call__(self, x: object) -> object:
        self.calls += 1
        return x


def leaves(case, device="cpu"):
    return [tritorch.tensor(x, device=device, requires_grad=True) for x in case.inputs()]


def run(case, tensors, device="cpu"):
    constants = [tritorch.tensor(array, device=device) for array in case.constants]
    tritorch.manual_seed(0)
    return case.function(*tensors, *constants)


def arrives(raiser, function, *args):
    with pytest.raises(type(raiser.error)) as caught:
        function(*args)
    assert caught.value is raiser.error
    assert raiser.calls == 1


def differentiable(result):
    several = result if isinstance(result, (tuple, list)) else [result]
    return [x for x in several if isinstance(x, tritorch.Tensor) and x.requires_grad]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_of_hooks_on_saved_tensors(case, device):
    count = Passer()
    with saved_tensors_hooks(count, Passer()):
        run(case, leaves(case, device), device)
    if not count.calls:
        pytest.skip("it saves no tensor")
    for kind in ERRORS if device == "cpu" else ERRORS[:3]:
        pack = Raiser(kind)
        with saved_tensors_hooks(pack, Passer()):
            arrives(pack, run, case, leaves(case, device), device)
        unpack = Raiser(kind)
        with saved_tensors_hooks(Passer(), unpack):
            out = differentiable(run(case, leaves(case, device), device))
        grads = [tritorch.ones_like(x) for x in out]
        arrives(unpack, tritorch.autograd.backward, out, grads)


def as_published(case):
    """A case's function as programs call it; None of one that calls the package's own functions."""
    function = case.function
    if function.__module__.startswith("tritorch."):
        places = (tritorch, F, tritorch.linalg, tritorch.special)
        gates = [getattr(place, function.__name__, None) for place in places]
        return next((g for g in gates if getattr(g, "__wrapped__", None) is function), None)
    code = getattr(function, "__code__", None)
    named = [function.__globals__.get(name) for name in code.co_names] if code else []
    own = any(inspect.isfunction(x) and x.__module__.startswith("tritorch.ops") for x in named)
    return None if own else function


@pytest.mark.parametrize("case", [c for c in CASES if as_published(c)], ids=str)
def test_of_classes_with_torch_function(case):
    case = replace(case, function=as_published(case))
    for kind in ERRORS:
        raiser = Raiser(kind)

        class Mine(tritorch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None, raiser=raiser):
                return raiser()

        with tritorch._C.DisableTorchFunctionSubclass():
            tensors = [tritorch.tensor(array).as_subclass(Mine) for array in case.inputs()]
        arrives(raiser, run, case, tensors)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_of_hooks_on_gradients(case):
    for kind in ERRORS:
        tensors, raiser = leaves(case), Raiser(kind)
        out = differentiable(run(case, tensors))
        for x in out:
            x.register_hook(raiser)
        arrives(raiser, out[0].backward, tritorch.ones_like(out[0]))


@pytest.mark.parametrize("kind", ERRORS)
def test_of_arguments_with_numpys_names(kind):
    x = tritorch.ones(3, 2, requires_grad=True)
    for call in (
        lambda: tritorch.softmax(x, axis=0),
        lambda: tritorch.exp(x=x),
        lambda: tritorch.mul(x1=x, x2=x),
        lambda: x.prod(axis=0, keepdims=True),
    ):
        pack = Raiser(kind)
        with saved_tensors_hooks(pack, Passer()):
            arrives(pack, call)


FORMS = sorted(
    name
    for name, op in OPERATORS.items()
    if isinstance(op, Pointwise) and len(op.inputs) <= 2 and hasattr(tritorch.Tensor, f"{name}_")
)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", FORMS)
def test_of_forms_in_place(name, device):
    """And of Python's operators, with tensors and numbers."""
    op = OPERATORS[name]
    low, high = op.domain if op.domain else (0.2, 0.8)
    make = lambda: tritorch.linspace(low, high, 4, device=device, requires_grad=True)
    operands = ((),) if len(op.inputs) == 1 else ((make(),), (0.5,), (make()[:1],))
    dunder = getattr(tritorch.Tensor, f"__{name}__", None)
    for given in operands:
        for form in (getattr(tritorch.Tensor, f"{name}_"), dunder):
            if form is None or (form is dunder and not given):
                continue
            count = Passer()
            try:
                with saved_tensors_hooks(count, Passer()):
                    form(make() * 1, *given)
            except (RuntimeError, NotImplementedError, TypeError):
                continue  # PyTorch refuses it of floats, or in place
            if not count.calls:
                continue
            for kind in ERRORS:
                pack = Raiser(kind)
                x = make() * 1
                with saved_tensors_hooks(pack, Passer()):
                    arrives(pack, form, x, *given)


RECORDS = (".call", ".finish", ".finish_with", ".finish_view", ".finish_many", ".finish_cast",
           ".apply", ".pointwise", ".wants", ".record")  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "ops").rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_no_except_around_recording_chooses_a_path(path):
    """No `try` whose error is not raised again has a call of a record's methods in it."""
    tree = ast.parse(path.read_text())
    renamed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
        for target in node.targets
        if isinstance(target, ast.Name) and f".{node.value.attr}" in RECORDS
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or not node.handlers:
            continue
        if all(any(isinstance(x, ast.Raise) for x in ast.walk(h)) for h in node.handlers):
            continue
        for each in (x for statement in node.body for x in ast.walk(statement)):
            if isinstance(each, ast.Call):
                said = ast.unparse(each.func)
                assert not said.endswith(RECORDS) and said not in renamed, f"{path}:{each.lineno}"
