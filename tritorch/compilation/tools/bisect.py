"""The first call whose compiled result is not that of the plain call: `tritorch.compiler.bisect`.

The function runs once, and its segments are kept with the inputs that they had.  A segment whose
compiled results differ is shortened: the first k calls, compiled for their results and those of the
whole that they give, are right for one k and wrong for the next, which a binary search finds.

# Note [Beyond rounding]
Two ways to compute are both rounded, so each is compared with the same calls in double precision.
The compiled way may be some times as far from it as the plain one, and some units in the last place
of the largest number.  Random calls draw other numbers in another precision: a segment with such
has no reference, and a wider bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.autograd.grad_mode import no_grad
from tritorch.compilation.follow.calls import Call, Segment, SourceLine, slots_of
from tritorch.compilation.follow.compiled import follower_of
from tritorch.compilation.follow.regions import Follower, Options
from tritorch.compilation.passes.pipeline import PASSES
from tritorch.compilation.tools.graphs import filled
from tritorch.core.dtype import complex64, complex128, float64
from tritorch.core.info import finfo
from tritorch.core.tensor import Tensor
from tritorch.random import fork_rng, get_rng_state, set_rng_state

Make = Callable[[Segment, list[Tensor]], Callable[[list[Tensor]], list[Tensor]]]
Values = dict[int, Tensor]  # by slot
_TIMES, _UNITS, _UNITS_ALONE = 4, 32, 4096
_CALLS = 3  # before a plan is what it stays


@dataclasses.dataclass
class Difference:
    """A call whose compiled result is another, or at which what was compiled raises."""

    operator: str
    place: SourceLine | None
    segment: int
    call: int
    error: float
    allowed: float
    raised: str = ""
    without: str = ""  # the pass without which the package's own way is right

    def __str__(self) -> str:
        where = "" if self.place is None else f" at {self.place[0]}:{self.place[1]}"
        call = f"{self.operator}{where}, call {self.call} of graph {self.segment}"
        by = f"; without the pass {self.without!r} it is right" if self.without else ""
        if self.raised:
            return f"{call}: with it, what is compiled raises {self.raised}{by}"
        return (
            f"{call}: its compiled result differs by {self.error:.3g}, where rounding explains "
            f"{self.allowed:.3g}{by}"
        )


def first_difference(
    function: Callable[..., Any], args: Any, kwargs: Any, options: Options
) -> Difference | None:
    """The first call of a run that a backend computes otherwise, or None."""
    kept: list[tuple[Segment, Values]] = []

    def keep(segment: Segment, examples: list[Tensor]) -> Any:
        kept.append((segment, dict(zip(segment.inputs, map(_copy, examples), strict=True))))
        return lambda given: _results(segment, dict(zip(segment.inputs, given, strict=True)))

    follower_of(function, dataclasses.replace(options, backend=keep))(*args, **kwargs)
    make: Make = options.backend or (lambda segment, held: _own(segment, held, options))
    for segment, values in kept:
        found = _in_segment(segment, values, make)
        if found is not None:
            if options.backend is None:
                found.without = _wrong_pass(segment, values, found.call + 1, options)
            return found
    return None


def _wrong_pass(segment: Segment, values: Values, count: int, options: Options) -> str:
    """The last pass without which the first calls of a segment are right, if there is one."""
    for name in reversed(PASSES):
        without = options.making._replace(without=options.making.without | {name})
        others = dataclasses.replace(options, making=without)

        def make(segment: Segment, held: list[Tensor], others: Options = others) -> Any:
            return _own(segment, held, others)

        if name not in options.making.without and _compare(segment, values, make, count) is None:
            return name
    return ""


def _own(segment: Segment, examples: list[Tensor], options: Options) -> Any:
    """The package's own way, as it is after some calls (see `plans.py`)."""

    def function(*given: Tensor) -> list[Tensor]:
        return _results(segment, dict(zip(segment.inputs, given, strict=True)))

    follower = Follower(function, options)
    for _ in range(_CALLS):
        follower(*map(_copy, examples))
    return lambda given: follower(*given)


def _in_segment(segment: Segment, values: Values, make: Make) -> Difference | None:
    whole = _compare(segment, values, make, len(segment.calls))
    if whole is None:
        return None
    right, wrong, found = 0, len(segment.calls), whole
    while wrong - right > 1:
        middle = (right + wrong) // 2
        different = _compare(segment, values, make, middle)
        if different is None:
            right = middle
        else:
            wrong, found = middle, different
    call = segment.calls[wrong - 1]
    name = f"{call.gate.__module__}.{call.gate.__qualname__}".replace("tritorch", "torch", 1)
    return Difference(name, call.source_line, segment.number, wrong - 1, *found)


def _compare(
    segment: Segment, values: Values, make: Make, count: int
) -> tuple[float, float, str] | None:
    """The error of the first so many calls and what is allowed, if more; or what is raised."""
    part, checked = _first_calls(segment, count)
    with fork_rng(), no_grad():
        start = get_rng_state()
        plain = _replay(part.calls, _copies(values, part.inputs))
        random = not get_rng_state().equal(start)
        exact = None if random else _reference(part, values)
        given = _copies(values, part.inputs)
        try:
            run = make(part, list(_copies(values, part.inputs).values()))
            set_rng_state(start)
            found = run(list(given.values()))
        except Exception as failure:
            return float("inf"), 0.0, " ".join(f"{type(failure).__name__}: {failure}".split())
    compiled = {**given, **dict(zip(part.outputs, found, strict=True))}
    for index in checked:
        error, allowed = _error(
            compiled[index], plain[index], None if exact is None else exact[index]
        )
        if not error <= allowed:
            return error, allowed, ""
    return None


def _first_calls(segment: Segment, count: int) -> tuple[Segment, list[int]]:
    """The first calls of a segment, and the slots whose values tell whether they are right."""
    calls = segment.calls[:count]
    used = {i for call in calls for i in slots_of((call.args, call.kwargs, call.results))}
    made = {i for call in calls for i in slots_of(call.results)}
    last = set(slots_of(calls[-1].results))
    inputs = [i for i in segment.inputs if i in used]
    outputs = [i for i in sorted(made) if i not in inputs and (i in segment.outputs or i in last)]
    part = dataclasses.replace(segment, calls=calls, inputs=inputs, outputs=outputs, reason="end")
    return part, [*outputs, *inputs]  # inputs, into which a call may have written


def _replay(calls: Iterable[Call], values: Values) -> Values:
    """The values of all slots, computed one call after the other."""
    for call in calls:
        args = filled(call.args, values.__getitem__)
        kwargs = filled(call.kwargs, values.__getitem__)
        _put(values, call.results, call.gate(*args, **kwargs))
    return values


def _results(segment: Segment, values: Values) -> list[Tensor]:
    values = _replay(segment.calls, values)
    return [values[i] for i in segment.outputs]


def _put(values: Values, results: Any, result: Any) -> None:
    for index, value in zip(slots_of(results), _tensors(result), strict=True):
        values[index] = value


def _tensors(nested: Any) -> Iterable[Tensor]:
    if isinstance(nested, Tensor):
        yield nested
    elif isinstance(nested, (tuple, list)):
        for each in nested:
            yield from _tensors(each)
    elif isinstance(nested, dict):
        yield from _tensors(list(nested.values()))


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone()


def _copies(values: Values, wanted: Iterable[int]) -> Values:
    return {i: _copy(values[i]) for i in wanted}


def _reference(part: Segment, values: Values) -> Values | None:
    """The same calls in double precision; None where they refuse it."""
    precise = {i: _precise(x) for i, x in _copies(values, part.inputs).items()}
    try:
        return _replay(part.calls, precise)
    except RuntimeError:  # of two dtypes
        return None


def _precise(x: Tensor) -> Tensor:
    if x.dtype.is_floating_point:
        return x.to(float64)
    return x.to(complex128) if x.dtype == complex64 else x


def _error(compiled: Tensor, plain: Tensor, exact: Tensor | None) -> tuple[float, float]:
    """The distance of a result from what it should be, and the distance that is allowed."""
    same = compiled.shape == plain.shape and compiled.dtype == plain.dtype
    if not same:
        return float("inf"), 0.0
    kind = plain.dtype
    if not (kind.is_floating_point or kind.is_complex):
        return (0.0 if compiled.equal(plain) else float("inf")), 0.0
    if plain.numel() == 0:
        return 0.0, 0.0
    target = _precise(plain if exact is None else exact)
    distance, own = _distance(_precise(compiled), target), _distance(_precise(plain), target)
    finite = target.abs()[target.isfinite()]
    largest = finite.max().item() if finite.numel() else 0.0
    units = _UNITS_ALONE if exact is None else _UNITS
    return distance, _TIMES * own + units * finfo(kind).eps * largest


def _distance(x: Tensor, y: Tensor) -> float:
    """The largest difference; infinite where one is not finite and the other not the same."""
    odd = ~(x.isfinite() & y.isfinite())
    alike = (x == y) | (x.isnan() & y.isnan())
    if (odd & ~alike).any().item():
        return float("inf")
    gaps = (x - y).abs()[~odd]
    return gaps.max().item() if gaps.numel() else 0.0
