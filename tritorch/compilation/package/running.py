"""Native programs of plans."""

from __future__ import annotations

from typing import Any

from tritorch.compilation.follow.tape import Form
from tritorch.compilation.package.plan import Plan
from tritorch.compilation.passes.pipeline import improved
from tritorch.compilation.plan.lowering import Lowered, whole
from tritorch.compilation.plan.plans import Making, ordered, without_dead
from tritorch.compilation.plan.symbolic_arguments import Varying


def lowered(plan: Plan) -> tuple[list[Lowered], list[Form], Varying]:
    """The functions behind a plan's calls, what values look like, and what is open."""
    forms = list(plan.forms)
    varying = Varying([dict(places) for places in plan.args], dict(plan.layouts))
    calls = varying.lowered(plan.notes, forms)
    return calls, forms, varying


class Program:
    """A plan as a native program: `run` gives the results' arrays, by their values."""

    def __init__(self, plan: Plan, making: Making) -> None:
        calls, forms, varying = lowered(plan)
        taken = [
            call._replace(function=whole(call.note)) if own else call
            for call, own in zip(calls, plan.whole)
        ]
        kept, inputs = plan.kept, plan.inputs
        known = varying.fixed(forms)
        live = without_dead(taken, set(kept))
        better = improved(live, known, inputs, kept, making, plan.alone)
        self.program, self.places = ordered(better, inputs, kept, varying, making.graphs, ())

    def run(self, numbers: tuple[int, ...], arrays: list[Any]) -> dict[int, Any]:
        """The values that are kept; arrays: the plan's inputs."""
        values = self.program.run(numbers, *arrays)
        return {number: values[place] for number, place in self.places.items()}
