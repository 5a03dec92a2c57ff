"""Whole objects are written as PyTorch writes them: the same classes, the same fields."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import pytest

import tritorch

_spec = importlib.util.spec_from_file_location(
    "layout_cases", Path(__file__).with_name("layout_cases.py")
)
assert _spec is not None and _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
RECORDED = json.loads(Path(__file__).with_name("layouts.json").read_text())
# What PyTorch makes anew when it loads.
_MADE_ANEW = {"_zero_grad_profile_name", "_warned_capturable_if_run_uncaptured"}
# What PyTorch finds as well as what it writes.
_UNDERSTOOD = {
    "torch.device", "torch.float32", "torch.nn.functional.gelu",
    "torch.distributions.transforms.ExpTransform",
}  # fmt: skip
# Operators are gates here, and written by their names.
_GATES = ("Gate", "function", "builtin_function_or_method")


@pytest.mark.parametrize("code", cases.CASES)
def test_fields_and_names(code: str) -> None:
    fields, names = cases.layout(tritorch, code)
    expected, expected_names = RECORDED[code]
    missing = {
        name: kind
        for name, kind in expected.items()
        if name not in _MADE_ANEW and fields.get(name) != kind
        and (fields.get(name) not in _GATES or kind not in _GATES)
    }  # fmt: skip
    assert not missing, {name: (kind, fields.get(name)) for name, kind in missing.items()}
    more = [name for name in names if name not in expected_names and name not in _UNDERSTOOD]
    assert not more, (more, expected_names)


def test_hooks_are_plain_dicts_of_pytorchs_names(tmp_path: Path) -> None:
    module = tritorch.nn.Linear(2, 2)
    first = module.register_forward_hook(print, with_kwargs=True, always_call=True)
    module.register_forward_pre_hook(max, with_kwargs=True)
    assert dict(module._forward_hooks) == {first.id: print}
    assert module._forward_hooks_with_kwargs == {first.id: True}
    assert module._forward_hooks_always_called == {first.id: True}
    file = io.BytesIO()
    tritorch.save((module, first), file)
    file.seek(0)
    loaded, handle = tritorch.load(file, weights_only=False)
    assert loaded._forward_hooks == module._forward_hooks and handle.id == first.id
    later = loaded.register_forward_hook(print)
    assert later.id > max(*loaded._forward_hooks, *loaded._forward_pre_hooks) - 1
    handle.remove()
    assert list(loaded._forward_hooks) == [later.id] and not loaded._forward_hooks_with_kwargs
    assert not loaded._forward_hooks_always_called and len(module._forward_hooks) == 1
    first.remove()
    assert not module._forward_hooks_with_kwargs


class Wrapped(tritorch.Tensor):
    """Pickles as what Tensor gives, in a call of its own."""

    def __reduce_ex__(self, protocol: int) -> tuple[object, ...]:
        function, args = super().__reduce_ex__(protocol)[:2]
        return _again, (function, args)


def _again(function: object, args: tuple[object, ...]) -> tritorch.Tensor:
    assert callable(function)
    return function(*args).as_subclass(Wrapped)


def test_a_subclass_around_the_pickling_of_tensors() -> None:
    file = io.BytesIO()
    tritorch.save([tritorch.arange(3.0).as_subclass(Wrapped)], file)
    file.seek(0)
    loaded = tritorch.load(file, weights_only=False)[0]
    assert type(loaded) is Wrapped and loaded.tolist() == [0, 1, 2]
