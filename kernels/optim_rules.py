"""The arithmetic of optimizers on one element and on a step's numbers, for every way to run it.

# Note [One formula, three runners]
These functions are plain Python over `sqrt`, `where`, `maximum` and the other names below, which
each runner binds to its own: `host/optim.py` to ndarrays in blocks, `kernels/optim.py` to Triton,
and `optim/_elementwise.py` to tensors, for gradients through steps.  Hence no other names here, and
no branch but on arguments in capitals, which are known when a function is compiled.  State that
MODE does without is passed through.

An optimizer `x` has `x(p, g, *state, *numbers)`, which returns the new p and state, and
`x_numbers(*counts, *options)`, which returns the new counts after the step, and the numbers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

sqrt: Any = None
absolute: Any = None
sign: Any = None
maximum: Any = None
minimum: Any = None
where: Any = None
power: Any = None


def prepare(p, g, inverse, coupled, keep, SCALED, MAXIMIZE, COUPLED, DECOUPLED):
    """p after decoupled decay; the direction of descent; the unscaled gradient."""
    if SCALED:
        g = g * inverse
    unscaled = g
    if MAXIMIZE:
        g = g * -1
    if COUPLED:
        g = g + p * coupled
    if DECOUPLED:
        p = p * keep
    return p, g, unscaled


def sgd_numbers(lr, momentum, dampening, first):
    """A momentum buffer starts as the first gradient."""
    return (
        lr,
        where(first > 0, momentum * 0, momentum),
        where(first > 0, 1.0, 1 - dampening),
        momentum,
    )


def sgd(p, g, buffer, lr, keep, take, momentum, MODE):
    """b = momentum b + (1 - dampening) g;  p -= lr b;  nesterov: lr (g + momentum b)."""
    if MODE == "momentum" or MODE == "nesterov":
        buffer = buffer * keep + g * take
        if MODE == "nesterov":
            g = g + buffer * momentum
        else:
            g = buffer
    return p - g * lr, buffer


def adam_numbers(step, lr, beta1, beta2, eps):
    """The averages' start at zero is corrected here, not by passes through memory."""
    gathered = sqrt(1 - power(beta2, step + 1))
    scale = lr * gathered / (power(beta1, step + 1) - 1)
    return step + 1, 1 - beta1, 1 - beta2, scale, eps * gathered


def adam(p, g, average, square, largest, weight1, weight2, scale, eps, MODE):
    """m, v = averages of g, g²;  p -= lr m̂ / (√v̂ + eps);  amsgrad: v's largest."""
    average = average + (g - average) * weight1
    square = square + (g * g - square) * weight2
    variance = square
    if MODE == "amsgrad":
        largest = maximum(largest, square)
        variance = largest
    return p + average / (sqrt(variance) + eps) * scale, average, square, largest


def nadam_numbers(step, product, lr, beta1, beta2, eps, momentum_decay):
    """The momentum's schedule: mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2)."""
    step = step + 1
    mu = beta1 * (1 - 0.5 * power(0.96, step * momentum_decay))
    following = beta1 * (1 - 0.5 * power(0.96, (step + 1) * momentum_decay))
    product = product * mu
    gathered = sqrt(1 - power(beta2, step))
    for_g = lr * gathered * (1 - mu) / (product - 1)
    for_average = lr * gathered * following / (product * following - 1)
    return step, product, 1 - beta1, 1 - beta2, for_g, for_average, eps * gathered


def nadam(p, g, average, square, weight1, weight2, for_g, for_average, eps, MODE):
    """p -= lr (a g + b m) / (√v̂ + eps)."""
    average = average + (g - average) * weight1
    square = square + (g * g - square) * weight2
    p = p + (g * for_g + average * for_average) / (sqrt(square) + eps)
    return p, average, square


def radam_numbers(step, lr, beta1, beta2, eps):
    """rho(t) says whether the variance can be trusted, and what it is rectified by."""
    step = step + 1
    decayed = power(beta2, step)
    gathered = sqrt(1 - decayed)
    limit = 2 / (1 - beta2) - 1
    rho = limit - 2 * step * decayed / (1 - decayed)
    trusted = where(rho > 5, 1.0, 0.0)
    known, limit = maximum(rho, 5.0), maximum(limit, 5.0)  # where they are used, they are larger
    ratio = sqrt((known - 4) * (known - 2) * limit / ((limit - 4) * (limit - 2) * known))
    scale = lr / (power(beta1, step) - 1) * where(rho > 5, ratio * gathered, 1.0)
    return step, 1 - beta1, 1 - beta2, scale, eps * gathered, trusted


def radam(p, g, average, square, weight1, weight2, scale, eps, trusted, MODE):
    """p -= lr m̂ r / (√v̂ + eps), and lr m̂ while there is too little to know the variance from."""
    average = average + (g - average) * weight1
    square = square + (g * g - square) * weight2
    p = p + average / where(trusted > 0, sqrt(square) + eps, 1.0) * scale
    return p, average, square


def adamax_numbers(step, lr, beta1, beta2, eps):
    """The step's numbers."""
    return step + 1, 1 - beta1, beta2, lr / (power(beta1, step + 1) - 1), eps


def adamax(p, g, average, norm, weight1, beta2, scale, eps, MODE):
    """m = average of g;  u = max(beta2 u, |g| + eps);  p -= lr m̂ / u."""
    average = average + (g - average) * weight1
    norm = maximum(norm * beta2, absolute(g) + eps)
    return p + average / norm * scale, average, norm


def adagrad_numbers(step, lr, lr_decay, eps):
    """The step's numbers."""
    return step + 1, lr * -1 / (1 + step * lr_decay), eps


def adagrad(p, g, total, scale, eps, MODE):
    """s += g²;  p -= lr g / (√s + eps)."""
    total = total + g * g
    return p + g / (sqrt(total) + eps) * scale, total


def adadelta_numbers(step, lr, rho, eps):
    """The step's numbers."""
    return step + 1, lr, 1 - rho, eps


def adadelta(p, g, square, moved, lr, weight, eps, MODE):
    """v = average of g²;  d = g √(u + eps) / √(v + eps);  u = average of d²;  p -= lr d."""
    square = square + (g * g - square) * weight
    delta = sqrt((moved + eps) / (square + eps)) * g
    return p - delta * lr, square, moved + (delta * delta - moved) * weight


def rmsprop_numbers(step, lr, alpha, eps, momentum):
    """The step's numbers."""
    return step + 1, lr, 1 - alpha, eps, momentum


def rmsprop(p, g, square, buffer, average, lr, weight, eps, momentum, MODE):
    """v = average of g², centered: less the square of g's average;  p -= lr g / (√v + eps)."""
    square = square + (g * g - square) * weight
    variance = square
    if MODE == "centered" or MODE == "centered momentum":
        average = average + (g - average) * weight
        variance = square - average * average
    change = g / (sqrt(variance) + eps)
    if MODE == "momentum" or MODE == "centered momentum":
        buffer = buffer * momentum + change
        change = buffer
    return p - change * lr, square, buffer, average


def rprop_numbers(step, shrinks, grows, smallest, largest):
    """The step's numbers."""
    return step + 1, shrinks, grows, smallest, largest


def rprop(p, g, previous, size, shrinks, grows, smallest, largest, MODE):
    """Steps grow while a gradient keeps its sign; one that flipped shrinks and waits for a step."""
    agreement = g * previous
    flipped = agreement < 0
    size = size * where(flipped, shrinks, where(agreement > 0, grows, 1.0))
    size = minimum(maximum(size, smallest), largest)
    g = where(flipped, 0.0, g)
    return p - sign(g) * size, g, size


def asgd_numbers(step, eta, mu, lr, lambd, alpha, t0):
    """eta and mu of the next step; this one's."""
    step = step + 1
    following = lr / power(1 + lambd * lr * step, alpha)
    return step, following, 1 / maximum(step - t0, 1.0), 1 - lambd * eta, eta, mu


def asgd(p, g, average, keep, eta, mu, MODE):
    """p = (1 - lambd eta) p - eta g, averaged from step t0 on."""
    p = p * keep - g * eta
    return p, where(mu < 1, average + (p - average) * mu, p)


class Variant(NamedTuple):
    """An optimizer's formula with all that is known when it is compiled."""

    name: str
    mode: str = ""
    scaled: bool = False  # whether gradients are multiplied by `inverse`, and kept so
    maximize: bool = False
    coupled: bool = False
    decoupled: bool = False
    zero: bool = False  # whether gradients are 0 afterwards (on the GPU)


def rebound(name: str, scope: dict[str, Any]) -> FunctionType:
    """A function of this file over other names."""
    return FunctionType(globals()[name].__code__, scope, name)


@functools.cache
def options_of(name: str) -> tuple[str, ...]:
    """The arguments of a rule's numbers."""
    return tuple(inspect.signature(globals()[f"{name}_numbers"]).parameters)


def whole(variant: Variant, scope: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """formula(p, g, state, (inverse, coupled, keep, *numbers)) -> new (p, g or None, *state).

    For Python's runners; kernels/optim.py composes the same parts in Triton.
    """
    first, rule = rebound("prepare", scope), rebound(variant.name, scope)

    def formula(p: Any, g: Any, state: Sequence[Any], numbers: Sequence[Any]) -> tuple[Any, ...]:
        p, g, unscaled = first(p, g, *numbers[:3], *variant[2:6])
        p, *state = rule(p, g, *state, *numbers[3:], variant.mode)
        return p, unscaled if variant.scaled else None, *state

    return formula
