"""Writes random programs, statement by statement, and knows what may be done with each variable."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .patterns import FLOATING, PATTERNS

_HOLE = re.compile(r"\{([A-Z$])(!?)\}")
_RESULTS = re.compile(r"^(\s*)([A-Z$](?:, [A-Z$])*) ([=~^]) (.*)$")
_SAVING = re.compile(r"tanh|sigmoid|sqrt|relu|softmax|exp|amax|norm|max\(|dropout|cumsum")


@dataclass
class Memory:
    """What is known of memory that variables share."""

    leaf: bool = False  # a leaf that requires a gradient: no write where gradients are recorded
    frozen: bool = False  # never written: it overlaps, or is one of several views
    saved: bool = False  # a backward pass may need it


@dataclass
class Variable:
    """A variable of a program."""

    name: str
    kind: str
    memory: Memory
    grad: bool = False


Blocks = dict[
    str, tuple[float, "Callable[[Writer], None]"]
]  # feature -> its weight, what writes it


class NotNow(Exception):
    """A statement has no fitting variable."""


class Writer:
    """Writes one program."""

    def __init__(
        self, seed: int, blocks: dict[str, tuple[float, Callable[[Writer], None]]]
    ) -> None:
        self.random = random.Random(seed)
        self.blocks = blocks
        self.allowed: dict[str, bool] = {}  # marks of patterns, and whether they hold
        self.lines: list[str] = []
        self.globals: set[str] = set()
        self.variables: list[Variable] = []
        self.depth = 1
        self.recording = True
        self.numbers = 0
        self.features: Counter = Counter()
        self.deliberate = False

    # -- text --------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Adds a line, or a line that Python wants at the start of the function."""
        if text.startswith("global "):
            self.globals.add(text)
        else:
            self.lines.append("    " * self.depth + text)

    def number(self) -> int:
        """A number that no other statement has."""
        self.numbers += 1
        return self.numbers

    @contextmanager
    def block(self, header: str, keeps: bool = True) -> Iterator[None]:
        """An indented block; unless it keeps its variables, they are not used after it."""
        self.line(header)
        before, length = list(self.variables), len(self.lines)
        self.depth += 1
        try:
            yield
            if len(self.lines) == length:
                self.line("pass")
        finally:
            self.depth -= 1
        if not keeps:
            self.variables = before

    # -- variables ---------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """Whether something that happens in a share of cases happens."""
        return self.random.random() < share

    def new(self, kind: str, memory: Memory, grad: bool) -> Variable:
        """A new variable, which later statements may use."""
        variable = Variable(f"{kind.lower()}{self.number()}", kind, memory, grad)
        self.variables.append(variable)
        return variable

    def pick(self, kind: str, written: bool) -> Variable:
        """A variable of a kind, one that may be written if it is to be; later ones more often."""
        fitting = [v for v in self.variables if v.kind == kind]
        if written:
            careful = self.chance(0.95)
            fitting = [
                v
                for v in fitting
                if not v.memory.frozen
                and not (v.memory.leaf and self.recording)
                and not (v.memory.saved and careful)
            ]
        if not fitting:
            raise NotNow
        return self.random.choice(fitting[len(fitting) // 2 :] if self.chance(0.5) else fitting)

    def pattern(self, text: str) -> None:
        """Writes a pattern, with variables in its holes."""
        if text[0] == "?":
            if not self.allowed[text[1]]:
                raise NotNow
            text = text[3:]
        text = text.replace("{u}", str(self.number()))
        kinds = [v.kind for v in self.variables if v.kind in FLOATING]
        floating = self.random.choice(kinds) if "$" in text else ""
        used: list[Variable] = []
        written: dict[str, Variable] = {}

        def fill(hole: re.Match) -> str:
            kind = floating if hole[1] == "$" else hole[1]
            if hole[2] and kind in written:  # the same variable throughout the pattern
                return written[kind].name
            variable = self.pick(kind, bool(hole[2]))
            if hole[2]:
                written[kind] = variable
            else:
                used.append(variable)
            return variable.name

        # Nothing is written until the last line is known to fit.
        filled: list[tuple[re.Match | None, str]] = []
        results: list[str] = []
        for line in text.splitlines():
            made = _RESULTS.match(line)
            filled.append((made, _HOLE.sub(fill, made[4] if made else line)))
            if made:
                results.append(
                    self.results(made, filled[-1][1], used, [*written.values()], floating)
                )
        for variable in written.values():
            variable.grad = variable.grad or any(v.grad for v in used)
            variable.memory.saved = False
        names = iter(results)
        for made, line in filled:
            self.line(f"{made[1]}{next(names)} = {line}" if made else line)

    def results(
        self,
        made: re.Match,
        line: str,
        used: list[Variable],
        written: list[Variable],
        floating: str,
    ) -> str:
        """The names of a line's results, now variables."""
        kinds = [floating if k == "$" else k for k in made[2].split(", ")]
        grad = self.recording and "detach()" not in line and any(v.grad for v in used)
        grad = grad or (self.recording and ("model(" in line or " w" in line))
        shared = (used or written)[0].memory if made[3] != "=" and (used or written) else None
        if made[3] == "=" and grad:
            for variable in used:
                variable.memory.saved = True
        names = []
        for kind in kinds:
            memory = shared or Memory(saved=grad and bool(_SAVING.search(line)))
            if made[3] == "^" or (shared and len(kinds) > 1 and grad):
                memory = replace(memory, frozen=True)
            names.append(self.new(kind, memory, grad).name)
        return ", ".join(names)

    # -- statements --------------------------------------------------------------------------------

    def statement(self) -> None:
        """Writes a statement of a random feature, or one that holds others."""
        features = [*PATTERNS, *self.blocks]
        weights = [PATTERNS[f][0] for f in PATTERNS]
        weights += [0.0 if self.depth > 2 else self.blocks[f][0] for f in self.blocks]
        for _ in range(20):
            (feature,) = self.random.choices(features, weights)
            before = len(self.variables)
            try:
                if feature in self.blocks:
                    self.blocks[feature][1](self)
                else:
                    self.pattern(self.random.choice(PATTERNS[feature][1]))
            except NotNow:
                del self.variables[before:]
                continue
            self.features[feature] += 1
            return

    def body(self, most: int = 3) -> None:
        """Writes some statements."""
        for _ in range(self.random.randint(1, most)):
            self.statement()
