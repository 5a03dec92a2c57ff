"""L-BFGS, with a line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.autograd import enable_grad, no_grad
from tritorch.core.layout import contiguous_format
from tritorch.core.tensor import Tensor
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.memory import view_as_real
from tritorch.optim._per_parameter import check
from tritorch.optim.optimizer import Optimizer, ParamsT


class LBFGS(Optimizer):
    """Newton's method with an inverse Hessian from the last steps and changes of the gradient.

    All parameters form one vector; `step` runs up to `max_iter` iterations, each with one or more
    calls of the closure, which is required.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    # ---- the parameters as one vector ------------------------------------------------------------

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    @_params.setter
    def _params(self, params: list[Tensor]) -> None:
        self.param_groups[0]["params"] = params

    def _gradient(self) -> Tensor:
        grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in self._params]
        return cat([_real(grad).reshape(-1) for grad in grads], 0)

    def _move(self, distance: Any, direction: Tensor) -> None:
        start = 0
        for p in self._params:
            p = _real(p)
            part = direction[start : start + p.numel()]
            p.add_(part.view_as(p) * distance)
            start += p.numel()

    # ---- one step --------------------------------------------------------------------------------

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Up to max_iter iterations; `closure` computes the loss and gradients and returns it."""
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}"
            )
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr, max_iter, max_eval = float(group["lr"]), group["max_iter"], group["max_eval"]
        tolerance = group["tolerance_change"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate() -> tuple[Any, Tensor]:
            with enable_grad():
                loss = closure()
            return loss, self._gradient()

        first_loss, grad = evaluate()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        if _size(grad) <= group["tolerance_grad"]:
            return first_loss

        for i in range(1, max_iter + 1):
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            direction = self._direction(grad, state, group["history_size"])
            previous = loss
            length: Any = lr * min(1.0, 1.0 / grad.abs().sum().item()) if first else lr
            slope = grad.dot(direction).item()
            state.update(d=direction, t=length, prev_loss=previous)
            if slope > -tolerance:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [p.clone(memory_format=contiguous_format) for p in self._params]

                def look(t: float, d: Tensor = direction, x: list[Tensor] = start) -> _Point:
                    self._move(t, d)
                    found, g = evaluate()
                    for p, value in zip(self._params, x):
                        p.copy_(value)
                    return _Point(t, float(found), g, g.dot(d).item())

                here = _Point(0.0, loss, grad, slope)
                point, calls = _strong_wolfe(
                    look, here, length, _size(direction), max_eval - evaluations
                )
                length, loss, grad = point.t, point.value, point.grad
                self._move(length, direction)
            else:
                self._move(length, direction)
                if i != max_iter:  # the next step evaluates here in any case
                    found, grad = evaluate()
                    loss, calls = float(found), 1
            state["t"] = length
            evaluations += calls
            state["func_evals"] += calls
            if (
                evaluations >= max_eval
                or _size(grad) <= group["tolerance_grad"]
                or _size(direction) * abs(length) <= tolerance
                or abs(loss - previous) < tolerance
            ):
                break
        return first_loss

    def _direction(self, grad: Tensor, state: dict[str, Any], history_size: int) -> Tensor:
        """The way down, after the last step has joined the history."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            state["prev_flat_grad"] = grad.clone(memory_format=contiguous_format)
            return grad.neg()
        changes, moves, ro = state["old_dirs"], state["old_stps"], state["ro"]
        change, move = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(move)
        if curvature > 1e-10:
            if len(changes) == history_size:
                for history in (changes, moves, ro):
                    history.pop(0)
            changes.append(change)
            moves.append(move)
            ro.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        state["prev_flat_grad"].copy_(grad)

        al = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for i in reversed(range(len(changes))):
            al[i] = moves[i].dot(q) * ro[i]
            q.sub_(changes[i] * al[i])
        q = q * state["H_diag"]
        for i in range(len(changes)):
            q.add_(moves[i] * (al[i] - changes[i].dot(q) * ro[i]))
        return q


def _real(x: Tensor) -> Tensor:
    return view_as_real(x) if x.is_complex() else x


def _size(x: Tensor) -> float:
    return x.abs().max().item()


# ---- line search ---------------------------------------------------------------------------------


class _Point(NamedTuple):
    """The function along a line: at t, its value, gradient and slope."""

    t: float
    value: float
    grad: Tensor
    slope: float


def _strong_wolfe(
    look: Callable[[float], _Point],
    start: _Point,
    t: float,
    direction_size: float,
    max_calls: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> tuple[_Point, int]:
    """A point low and flat enough, and the number of looks; Nocedal and Wright, algorithm 3.5, 3.6.

    Walks away from the start until two points bracket a good one, then narrows the bracket.
    """

    def too_high(point: _Point) -> bool:
        return point.value > start.value + c1 * point.t * start.slope

    def flat(point: _Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    last, new = start, look(t)
    calls, tries = 1, 0
    bracket = None
    while tries < max_calls:
        if too_high(new) or (tries > 1 and new.value >= last.value):
            bracket = [last, new]
            break
        if flat(new):
            return new, calls
        if new.slope >= 0:
            bracket = [last, new]
            break
        bounds = (new.t + 0.01 * (new.t - last.t), new.t * 10)
        last, new = new, look(_cubic_interpolate(last, new, bounds))
        calls, tries = calls + 1, tries + 1
    if bracket is None:
        bracket = [start, new]

    stuck = False
    bracket.sort(key=lambda point: point.value)  # the lower point first
    while tries < max_calls:
        low, high = bracket
        left, right = sorted((low.t, high.t))
        if (right - left) * direction_size < tolerance_change:
            break
        t = _cubic_interpolate(low, high, None)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # close to an end: once is tolerated
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = look(t)
        calls, tries = calls + 1, tries + 1
        if too_high(new) or new.value >= low.value:
            bracket = sorted([low, new], key=lambda point: point.value)
            continue
        if flat(new):
            return new, calls
        bracket = [new, low if new.slope * (high.t - low.t) >= 0 else high]
    return bracket[0], calls


def _cubic_interpolate(a: _Point, b: _Point, bounds: tuple[float, float] | None) -> float:
    """Where the cubic through two values and slopes is least, within bounds or between the two."""
    left, right = bounds or (min(a.t, b.t), max(a.t, b.t))
    if b.t == a.t:
        return (left + right) / 2
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (left + right) / 2
    d2 = square**0.5
    near, far = (a, b) if a.t <= b.t else (b, a)
    span = far.t - near.t
    t = far.t - span * ((far.slope + d2 - d1) / (far.slope - near.slope + 2 * d2))
    return min(max(t, left), right)
