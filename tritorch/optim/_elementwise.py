"""Optimizers that treat each element by itself: a subclass names its formula and its state.

The formulas are in kernels/optim_rules.py.  A group's parameters are updated together, by
host/optim.py or gpu/lists/optim.py; gradients through a step (`differentiable`) come from the same
formula on tensors.

# Note [Numbers or tensors]
Options and step counts are Python numbers wherever that needs no wait for the device.  Tensors they
are under `capturable` and `fused`, whose step counts lie on the GPU, and under `differentiable`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import CPU, cuda_device
from tritorch.arrays.sparse import SparseArray
from tritorch.autograd import is_grad_enabled, no_grad
from tritorch.core.dispatching import entered, watching
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.kernels.optim_rules import Variant, options_of, rebound, whole
from tritorch.ops.lists.multi_tensor import copy_back, dense, norm_of_all
from tritorch.ops.pointwise.arithmetic import maximum, where
from tritorch.ops.record.backends import backend
from tritorch.ops.shape.memory import view_as_real
from tritorch.optim._per_parameter import PerParameter, check_devices, numbers_of, refuse_sparse

_where = where


# ---- formulas on numbers and tensors -------------------------------------------------------------


def _number_or_tensor(method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: getattr(x, method)() if isinstance(x, Tensor) else function(x)


def _maximum(x: Any, y: Any) -> Any:
    if isinstance(x, Tensor):
        return maximum(x, y) if isinstance(y, Tensor) else x.clamp(min=y)
    return max(x, y)


def _minimum(x: Any, y: Any) -> Any:
    return x.clamp(max=y) if isinstance(x, Tensor) else min(x, y)


def _choose(condition: Any, x: Any, y: Any) -> Any:
    if isinstance(condition, Tensor):
        return _where(condition, x, y)
    return x if condition else y


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, Tensor) and not isinstance(base, Tensor):
        exponent = exponent.double()  # 1 - beta^step, close to 0, would cancel in float32
    return base**exponent


_NAMES: dict[str, Any] = {
    "sqrt": _number_or_tensor("sqrt", math.sqrt),
    "absolute": _number_or_tensor("abs", abs),
    "sign": _number_or_tensor("sign", lambda x: math.copysign(1.0, x)),
    "maximum": _maximum,
    "minimum": _minimum,
    "where": _choose,
    "power": _power,
}


def _on_host(
    name: str, counts: Sequence[Any], options: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The counts after a step, and the step's numbers; options begin with lr and both decays."""
    lr, coupled, decoupled, *rest = options
    found = rebound(f"{name}_numbers", _NAMES)(*counts, *rest)
    return found[: len(counts)], (coupled, 1 - lr * decoupled, *found[len(counts) :])


# ---- memory --------------------------------------------------------------------------------------


def _real(value: Any) -> Any:
    return view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


class _Batch(NamedTuple):
    """Parameters of one device that are updated by the same numbers."""

    rows: list[list[Any]]  # arrays: parameter, gradient, state
    counts: list[list[Any]]  # arrays of one element
    back: list[tuple[Any, Any]]


class _Step(NamedTuple):
    """What all parameters of a group have in common."""

    variant: Variant
    named: dict[str, Any]  # options
    values: list[Any]  # lr, both decays
    state: list[str]  # names; empty ones of what is absent
    on_device: bool  # whether any option is on a GPU
    scale: Tensor | None
    found: Tensor | None
    writes: list[int]  # the places of a row's arrays that change


def _is_plain(grad: Tensor) -> bool:
    """Whether a kernel's step can leave zeros in it."""
    array = grad._array
    return type(array) is _C.Array and not array.dtype.is_complex


class Elementwise(PerParameter):
    """A formula of kernels/optim_rules.py over groups of parameters.

    `scalars` are the formula's counts, in its order.
    """

    formula: str
    state_names: tuple[str, ...]  # the formula's, in its order
    _clears = False  # whether this step leaves gradients 0

    @functools.cached_property
    def _numbers(self) -> int:
        """How many numbers there are besides the gradient's scale."""
        names = inspect.signature(rebound(self.formula, {})).parameters
        return 2 + len(names) - len(("p", "g", "MODE")) - len(self.state_names)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        return bool(self.defaults.get("fused"))

    def mode(self, group: dict[str, Any]) -> str:
        """What else the formula depends on."""
        return ""

    def without(self, group: dict[str, Any]) -> set[str]:
        """The state that a group's options make unnecessary."""
        return set()

    def named(self, group: dict[str, Any]) -> dict[str, Any]:
        """A group's options by the names that formulas use."""
        if "betas" in group:
            beta1, beta2 = group["betas"]
            return {**group, "beta1": beta1, "beta2": beta2}
        return group

    def complete(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
        """Makes state that a first update begins with; whether this is that update."""
        return False

    def step_clipped(
        self, max_norm: float, norm_type: float = 2.0, *, zero_grad: bool = True
    ) -> Tensor:
        """clip_grad_norm_(parameters, max_norm), step() and zeroing, in two passes over gradients.

        The first takes their norm, which is returned; the second clips, undoes a GradScaler's
        scale, updates, and leaves zeros (or, without zero_grad, what it clipped): on the GPU
        one launch for all parameters of a group and dtype.
        """
        if not (isinstance(max_norm, Real) and max_norm >= 0):
            raise ValueError(f"step_clipped() needs a max_norm of 0 or more, got {max_norm!r}")
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        held = getattr(self, "grad_scale", None)
        with no_grad():
            norm = norm_of_all(grads, float(norm_type))
            if held is not None:
                norm = norm / held.to(norm.device)
            over = ((norm + 1e-6) / float(max_norm)).clamp(min=1.0)
            scale = over if held is None else over * held.to(over.device)
        clears = zero_grad and all(_is_plain(grad) for grad in grads)
        with Scope((self, "grad_scale", scale), (self, "_clears", clears)):
            self.step()
        if zero_grad and not clears:
            self.zero_grad(set_to_none=False)
        return norm

    def step_group(self, group: dict[str, Any]) -> None:
        """One update of a group's parameters."""
        check_devices(group)
        step = self._prepared(group)
        with_tensors = is_grad_enabled() or bool(watching and entered.modes)
        batches: dict[Any, _Batch] = {}
        seen: set[int] = set()
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if id(p) in seen:  # its second update sees the first
                self._flush(batches, step)
                batches.clear()
                seen.clear()
            seen.add(id(p))
            state = self.state_of(p, group)
            first = self.complete(p, state, group)
            if with_tensors or not self._join(batches, p, grad, state, first, step):
                self._on_tensors(p, grad, state, first, step)
        self._flush(batches, step)

    def step_lists(
        self, group: dict[str, Any], params: Sequence[Tensor], grads: Sequence[Tensor],
        states: Sequence[dict[str, Any]],
    ) -> None:  # fmt: skip
        """One update of parameters whose gradients and state are given."""
        step = self._prepared(group)
        with_tensors = is_grad_enabled() or bool(watching and entered.modes)
        batches: dict[Any, _Batch] = {}
        for p, grad, state in zip(params, grads, states, strict=True):
            first = self.complete(p, state, group)
            if with_tensors or not self._join(batches, p, grad, state, first, step):
                self._on_tensors(p, grad, state, first, step)
        self._flush(batches, step)

    def _prepared(self, group: dict[str, Any]) -> _Step:
        options = numbers_of(group)
        coupled, decoupled = self.decays(options)
        scale = getattr(self, "grad_scale", None)
        used = lambda x: isinstance(x, Tensor) or x != 0
        variant = Variant(
            self.formula, self.mode(options), scale is not None, bool(options.get("maximize")),
            used(coupled), used(decoupled), self._clears,
        )  # fmt: skip
        values = [options["lr"], coupled, decoupled]
        named = self.named(options)
        on_device = any(isinstance(x, Tensor) and x.is_cuda for x in (*named.values(), *values))
        found = getattr(self, "found_inf", None)
        absent = self.without(options)
        state = ["" if name in absent else name for name in self.state_names]
        writes = [k for k in range(2 + len(state)) if k != 1 or variant.scaled or variant.zero]
        return _Step(variant, named, values, state, on_device, scale, found, writes)

    def _join(
        self, batches: dict[Any, _Batch], p: Tensor, grad: Tensor, state: dict[str, Any],
        first: bool, step: _Step,
    ) -> bool:  # fmt: skip
        """Puts a parameter into its batch; False if its memory is not what batches are made of."""
        numbers: Any  # None if they are to be computed on the device
        row: list[Any]
        ready = _C.host_row(p, grad, state, step.state, self.scalars, 1 in step.writes)
        if ready is not None:
            numbers, row, counts = ready
            key = (-1, first, numbers)
            batch = batches.get(key)
            if batch is None:
                batch = batches[key] = _Batch([], [], [])
            batch.rows.append(row)
            batch.counts.append(counts)
            return True
        array: Any = p._array
        kind = type(array)
        host = kind is np.ndarray
        if not (host or kind is _C.Array):
            return False
        counts = [state[name]._array for name in self.scalars]
        numbers = None
        if type(counts[0]) is np.ndarray if counts else host or not step.on_device:
            numbers = tuple([x.item() for x in counts])
        row = []
        shape = array.shape
        plain = array.dtype.kind != "c" if host else not array.dtype.is_complex
        tensors = (p, grad, *[state[name] if name else None for name in step.state])
        for tensor in tensors:
            if tensor is None:
                row.append(None)
                continue
            x = tensor._array
            if type(x) is not kind or x.shape != shape:
                return False
            row.append(x)
            if not (x.flags.c_contiguous if host else x.is_contiguous()):
                plain = False
        key = (-1 if host else array.device_index, first, numbers)
        batch = batches.get(key)
        if batch is None:
            batch = batches[key] = _Batch([], [], [])
        if not plain:
            row = [x if x is None else _real(x)._array for x in tensors]
            row = dense(row, batch.back, step.writes)
        batch.rows.append(row)
        batch.counts.append(counts)
        for name in self.scalars:
            _C.bump_version(state[name])
        for tensor in tensors:
            if tensor is not None and (tensor is not grad or 1 in step.writes):
                _C.bump_version(tensor)
        return True

    def _values(self, step: _Step, first: bool) -> list[Any]:
        """lr, both decays, and the options of the formula's numbers."""
        names = options_of(self.formula)[len(self.scalars) :]
        return [*step.values, *(first * 1.0 if x == "first" else step.named[x] for x in names)]

    def _flush(self, batches: dict[Any, _Batch], step: _Step) -> None:
        """Updates what has been joined."""
        for (device, first, counts), batch in batches.items():
            family = backend("cpu" if device < 0 else "gpu", "optim")
            place = CPU if device < 0 else cuda_device(device)
            on_place = lambda x, to=place: None if x is None else x.to(to)._array
            scale, found = on_place(step.scale), on_place(step.found)
            values = self._values(step, first)
            if counts is None:
                values = [x._array if isinstance(x, Tensor) and x.is_cuda else x for x in values]
                values = [x.item() if isinstance(x, Tensor) else x for x in values]
                numbers = family.advance(self.formula, batch.counts, values, found, self._numbers)
            else:
                if step.found is not None and (device < 0 or counts) and step.found.item():
                    continue
                values = [x.item() if isinstance(x, Tensor) else x for x in values]
                counts, numbers = _on_host(self.formula, counts, values)
                for arrays in batch.counts:
                    for array, value in zip(arrays, counts):
                        array[...] = value
            family.update(step.variant, batch.rows, numbers, scale, found)
            copy_back(batch.back)

    def update_sparse(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], first: bool, group: dict[str, Any]
    ) -> None:
        """The update by a sparse gradient, which most optimizers refuse."""
        refuse_sparse(self)

    def _on_tensors(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], first: bool, step: _Step
    ) -> None:
        """The update by operators, which autograd records."""
        if type(grad._array) is SparseArray:
            grad = -grad if step.variant.maximize else grad
            self.update_sparse(p, grad, state, first, step.named)
            return
        scale: Any = 1.0
        if step.scale is not None:
            scale = 1.0 / step.scale.to(p.device)
        if step.found is not None and step.found.item():
            return
        own = [state[name] for name in self.scalars]
        counts = [x.clone() if x.is_cuda else x.item() for x in own]
        after, numbers = _on_host(self.formula, counts, self._values(step, first))
        with no_grad():
            for count, value in zip(own, after):
                value = value.detach() if isinstance(value, Tensor) else count.new_tensor(value)
                count.copy_(value)
        old = [p, grad, *(state[name] if name else None for name in step.state)]
        old = [_real(x) for x in old]
        # Copies, since autograd may want the values that these have now.
        values = [x if x is None else x.clone() for x in old]
        new = whole(step.variant, _NAMES)(*values[:2], values[2:], (scale, *numbers))
        for target, value in zip(old, new):
            if target is not None and value is not None:
                target.copy_(value)
