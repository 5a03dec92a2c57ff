"""Random programs for comparing compiled with eager: source text from a seed.

A program is a function of (x, y, w, model, n, lr, flag) and what it is called with, four times, all
of it Python source, so that a failure prints as something that a person reads.  `writer.py` writes
the statements of `patterns.txt` and `blocks.py`; `inputs.py` writes the calls.  `worlds.py` runs
programs, `comparing.py` compares what was seen there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from .blocks import BLOCKS
from .inputs import inputs
from .writer import Writer

CALLER = {"held": 0.6, "watched": 0.8, "writing": 0.25, "again": 0.15}  # shares of programs


@dataclass(frozen=True)
class Program:
    """A program, and the calls that a world makes of it."""

    seed: int
    source: str
    setup: str
    calls: tuple[str, ...]
    held: bool = False  # the caller keeps the results of all calls
    watched: bool = True  # all is looked at after each call, not only at the end
    writing: bool = False  # the caller writes into results after each call
    again: bool = False  # another world has run the same code, compiled
    backward: str = "none"  # none, after each call, twice (through gradients too), or at the end
    deliberate: bool = False  # an error is among the statements on purpose
    features: Counter = field(default_factory=Counter, compare=False)

    def __str__(self) -> str:
        names = [name for name in CALLER if getattr(self, name)]
        lines = [f"# seed {self.seed}; backward: {self.backward}; " + ", ".join(names)]
        lines += ["# set up", self.setup]
        for index, call in enumerate(self.calls):
            lines += [f"# call {index}", call]
        return "\n".join([*lines, "", self.source])

    def but(self, **changes: Any) -> Program:
        """The program with some of its parts changed."""
        return replace(self, **changes)


def _returned(writer: Writer) -> str:
    """What the program gives: tensors, inputs, numbers and None in nested containers."""
    known = writer.variables
    recent = known[-5:] + writer.random.choices(known, k=3)
    terms = [v.name for v in writer.random.sample(recent, writer.random.randint(1, 6))]
    rare = ("x", "y", "None", "n", "lr", "x[:1]", "w.t()")
    terms += [term for term in rare if writer.chance(0.06)]
    if writer.chance(0.1):
        terms.append(terms[0])
    joined = ", ".join(terms)
    forms = {
        "one": (4, terms[0]),
        "tuple": (5, joined),
        "dict": (1.5, f'{{"a": {terms[0]}, "b": [{joined}]}}'),
        "nested": (1.5, f'[{terms[0]}, ({joined}, {{"c": {terms[-1]}}})]'),
        "none": (0.3, "None"),
    }
    (form,) = writer.random.choices([*forms], [weight for weight, _ in forms.values()])
    writer.features["returned: " + form] += 1
    return "return " + forms[form][1]


def generate(seed: int, growing: bool = False) -> Program:
    """The program of a seed.

    growing: it is called eight times, with sizes and numbers that differ, not four."""
    writer = Writer(seed, BLOCKS)
    setup, calls = inputs(writer, growing)
    for _ in range(writer.random.choice([4, 6, 9, 12, 16])):
        writer.statement()
    writer.line(_returned(writer))
    lines = ["    " + line for line in sorted(writer.globals)] + writer.lines
    return Program(
        seed=seed,
        source="def program(x, y, w, model, n, lr, flag):\n" + "\n".join(lines) + "\n",
        setup=setup,
        calls=tuple(calls),
        **{name: writer.chance(share) for name, share in CALLER.items()},
        backward=writer.random.choices(["none", "each", "twice", "end"], [2, 5, 1, 1.5])[0],
        deliberate=writer.deliberate,
        features=writer.features,
    )
