"""Forward mode: dual tensors carry a tangent through operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch.autograd import duals
from tritorch.core.scopes import Scope, ScopeWhenMade, set_back
from tritorch.core.tensor import Tensor


class _Levels:
    entered: Sequence[int] = ()


_levels = _Levels()


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent (or None)."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begins a level; there can be one."""
    if _levels.entered:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.entered, duals.levels.made = [0], []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level."""
    if not _levels.entered:
        raise RuntimeError("Dual level must be a positive number.")
    _levels.entered = ()
    duals.forget_tangents()


class dual_level(Scope):
    """`with dual_level():` tensors can be made dual."""

    def changes(self) -> Any:
        if _levels.entered:
            raise RuntimeError("Nested forward mode AD is not supported at the moment")
        fields = duals.levels.__dict__  # this thread's
        fields.setdefault("made", None)
        return (_levels, "entered", [0]), (fields, "made", []), set_back(duals.forget_tangents)

    def __enter__(self) -> int:
        super().__enter__()
        return 0


def _is_fwd_grad_enabled() -> bool:
    """True while tangents are carried."""
    return duals.levels.enabled


class _set_fwd_grad_enabled(ScopeWhenMade):
    """Sets whether tangents are carried, as a call or as a context."""

    def changes(self, mode: bool) -> Any:
        fields = duals.levels.__dict__  # this thread's
        fields.setdefault("enabled", True)
        return ((fields, "enabled", mode),)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The tensor with a tangent."""
    if not _levels.entered:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for x, what in ((tensor, "primal"), (tangent, "tangent")):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")
    if tensor._tangent is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            "same level 0 is not supported."
        )
    if tangent._tangent is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not "
            "supported."
        )
    if tensor.is_nested or tangent.is_nested:
        raise NotImplementedError("forward mode does not take nested tensors")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the "
            f"original Tensor, this is not supported. Tensor is of size {list(tensor.shape)} "
            f"while the given forward gradient is of size {list(tangent.shape)}."
        )
    return duals.make_dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent of a tensor."""
    carried = _levels.entered and duals.levels.enabled
    return UnpackedDualTensor(duals.primal_of(tensor), tensor._tangent if carried else None)
