"""Which transform leads to a constraint: biject_to and transform_to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.distributions import constraints, transforms as t
from tritorch.distributions.utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], t.Transform]


class ConstraintRegistry:
    """Makers of transforms, by the class of the constraint that they lead to."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Registers factory(constraint) for a class of constraints; a decorator without it."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> t.Transform:
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()  # one to one, with log_abs_det_jacobian
transform_to = ConstraintRegistry()  # onto, simple and fast


def _interval(constraint: Any) -> t.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and (low, high) == (0, 1):
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


def _beyond(bound: str, sign: int) -> Factory:
    return lambda c: t.ComposeTransform(
        [t.ExpTransform(), t.AffineTransform(getattr(c, bound), sign)]
    )


_BOTH: dict[Any, Factory] = {
    constraints.real: lambda c: t.identity_transform,
    constraints.positive: lambda c: t.ExpTransform(),
    constraints.nonnegative: lambda c: t.ExpTransform(),
    constraints.interval: _interval,
    constraints.half_open_interval: _interval,
    constraints.less_than: _beyond("upper_bound", -1),
    constraints.greater_than: _beyond("lower_bound", 1),
    constraints.greater_than_eq: _beyond("lower_bound", 1),
    constraints.corr_cholesky: lambda c: t.CorrCholeskyTransform(),
}
_BIJECTIVE: dict[Any, Factory] = {constraints.simplex: lambda c: t.StickBreakingTransform()}
_ONTO: dict[Any, Factory] = {
    constraints.simplex: lambda c: t.SoftmaxTransform(),
    constraints.lower_cholesky: lambda c: t.LowerCholeskyTransform(),
    constraints.positive_definite: lambda c: t.PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda c: t.PositiveDefiniteTransform(),
}


def _of_parts(registry: ConstraintRegistry) -> dict[Any, Factory]:
    return {
        constraints.independent: lambda c: t.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.cat: lambda c: t.CatTransform(
            [registry(part) for part in c.cseq], c.dim, c.lengths
        ),
        constraints.stack: lambda c: t.StackTransform([registry(part) for part in c.cseq], c.dim),
    }


for _own, _target in ((_BIJECTIVE, biject_to), (_ONTO, transform_to)):
    for _constraint, _factory in {**_BOTH, **_own, **_of_parts(_target)}.items():
        _target.register(_constraint, _factory)
