"""Native programs of plans."""

from __future__ import annotations

from typing import Any

from tritorch.compilation.follow.tape import Form
from tritorch.compilation.package.plan import Plan
from tritorch.compilation.passes.pipeline import run_passes
from tritorch.compilation.plan.lowering import Lowered, whole
from tritorch.compilation.plan.plans import Making, ordered, without_dead
from tritorch.compilation.plan.symbolic_arguments import SymbolicArguments


def lowered(plan: Plan) -> tuple[list[Lowered], list[Form], SymbolicArguments]:
    """The functions behind a plan's calls, the forms of values, and the dynamic parts."""
    forms = list(plan.forms)
    symbolic = SymbolicArguments([dict(indices) for indices in plan.args], dict(plan.layouts))
    calls = symbolic.lowered(plan.notes, forms)
    return calls, forms, symbolic


class Program:
    """A plan as a native program: `run` gives the results' arrays, by their values."""

    def __init__(self, plan: Plan, making: Making) -> None:
        calls, forms, symbolic = lowered(plan)
        taken = [
            call._replace(function=whole(call.note)) if own else call
            for call, own in zip(calls, plan.whole)
        ]
        kept, inputs = plan.kept, plan.inputs
        known = symbolic.fixed(forms)
        live = without_dead(taken, set(kept))
        optimised = run_passes(live, known, inputs, kept, making, plan.alone)
        self.program, self.indices = ordered(optimised, inputs, kept, symbolic, making.graphs, ())

    def run(self, numbers: tuple[int, ...], arrays: list[Any]) -> dict[int, Any]:
        """The values that are kept; arrays: the plan's inputs."""
        values = self.program.run(numbers, *arrays)
        return {number: values[index] for number, index in self.indices.items()}
