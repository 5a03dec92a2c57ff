"""Samples whose parameters are tensors: gamma, Dirichlet, Poisson, binomial.

Those of gamma and Dirichlet have gradients: Note [Implicit gradients] in `host/random/sampling.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tritorch.arrays import arrays
from tritorch.core import published
from tritorch.core.generator import Generator
from tritorch.core.promotion import not_implemented
from tritorch.core.tensor import Tensor
from tritorch.ops.random.random import source_for
from tritorch.ops.random.randomness import expanded
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_tensor, scalar_name
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.shape import broadcast_tensors


def _draws(name: str) -> Callable[..., Any]:
    """`name` of the sampling backends, on arrays of one shape."""

    def draw(*values: Any) -> Any:
        *parameters, generator = values
        device = arrays.device_of(parameters[0])
        source = source_for(generator, device)
        if device.backend == "cpu":
            return getattr(backend("cpu", "sampling"), name)(source.native, *parameters)
        # One counter of the sequence, which is four numbers, for each element.
        seed, offset = source.draw(4 * math.prod(parameters[0].shape))
        return getattr(backend("gpu", "sampling"), name)((seed, offset, device.index), *parameters)

    return draw


def _drawn(name: str, inputs: str, schema: str, batch: str = "elementwise") -> Operator:
    draw = _draws(name)
    return Operator(
        f"{name}_drawn", inputs, "generator",
        schema=schema, cpu=draw, gpu=draw, rules=Rules(infer=same, batch=batch),
    )  # fmt: skip


def _moving(name: str, grad: Any, node: str = "") -> Operator:
    """The sample as it is, moving with its parameter: so that nothing is drawn a second time where
    a record runs again, as in forward mode."""
    give = lambda a, sample: sample
    return Operator(
        name, "a sample",
        schema="(Tensor a, Tensor sample) -> Tensor", cpu=give, gpu=give,
        grad=Gradient(grad, node=node), rules=Rules(infer=give, axes="elementwise", batch="lead"),
    )  # fmt: skip


def _refuse(name: str) -> Callable[..., Any]:
    def gradient(g: Tensor) -> Tensor:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return gradient


def _zeros(g: Tensor) -> Tensor:
    return published.public.zeros_like(g)


_gamma_slope = Operator(
    "standard_gamma_grad", "a x",
    schema="_standard_gamma_grad(a, x)", kind="internal", cpu="sampling.standard_gamma_grad",
    grad=(_refuse("_standard_gamma_grad"),) * 2,
    rules=Rules(infer=same, axes="elementwise", batch="elementwise"),
)  # fmt: skip
_dirichlet_slope = Operator(
    "dirichlet_grad", "x a total",
    schema="_dirichlet_grad(x, a, total)", kind="internal", cpu="sampling.dirichlet_grad",
    grad=(_refuse("_dirichlet_grad"),) * 3,
    rules=Rules(infer=same, axes="elementwise", batch="lead"),
)  # fmt: skip


def _dirichlet_gradient(g: Tensor, out: Tensor, a: Tensor) -> Tensor:
    slope = _dirichlet_grad(out, a, a.sum(-1, keepdim=True).expand_as(a))
    return slope * (g - (out * g).sum(-1, keepdim=True))


def _gamma_gradient(g: Tensor, out: Tensor, a: Tensor) -> Tensor:
    return g * _standard_gamma_grad(a, out)


_gamma_drawn = _drawn("standard_gamma", "a", "_standard_gamma(a, generator)")
_gamma = _moving("standard_gamma", _gamma_gradient)
_shares_drawn = _drawn("dirichlet", "a", "_sample_dirichlet(a, generator)", "lead")
_shares = _moving("dirichlet", _dirichlet_gradient, "SampleDirichlet")
_poisson_drawn = _drawn("poisson", "a", "poisson(a, generator)")
_poisson = _moving("poisson", _zeros)
_binomial_drawn = _drawn("binomial", "count p", "binomial(count, p, generator)")


def _require(input: Tensor, function: str, name: str, types: str) -> None:
    require_tensor(input, function, "input", 1)
    if input.dtype.name not in types.split():
        raise not_implemented(name, input.dtype)


@public(method=False)
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma distributed, of rate 1, with parameters given by a tensor."""
    _require(input, "_standard_gamma", "gamma_cpu", "float32 float64")
    return _gamma.call((input, _gamma_drawn.call((expanded(input.detach()),), (generator,))))


@public(method=False)
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Dirichlet distributed over the last dim."""
    _require(input, "_sample_dirichlet", "dirichlet", "float32 float64")
    return _shares.call((input, _shares_drawn.call((expanded(input.detach()),), (generator,))))


@public(method=False)
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """How gamma distributed output moves with its parameters."""
    input, output = broadcast_tensors(input, output)
    return _gamma_slope.call((input, output))


@public(method=False)
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """How Dirichlet distributed x move with their parameters, of 1 - x."""
    return _dirichlet_slope.call(broadcast_tensors(x, alpha, total))


@public(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson distributed, with rates given by a tensor."""
    _require(input, "poisson", "poisson_cpu", "float16 bfloat16 float32 float64")
    return _poisson.call((input, _poisson_drawn.call((expanded(input.detach()),), (generator,))))


@public(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Binomially distributed."""
    for name, value in (("count", count), ("prob", prob)):
        if not value.is_floating_point():
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, "
                f"got: {scalar_name(value.dtype)}"
            )
    if count.dtype is not prob.dtype:
        raise RuntimeError(
            f"Found dtype {scalar_name(prob.dtype)} but expected {scalar_name(count.dtype)}"
        )
    count, prob = broadcast_tensors(count, prob)
    parameters = expanded(count.detach()), expanded(prob.detach())
    return _binomial_drawn.call(parameters, (generator,))
