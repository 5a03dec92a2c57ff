"""Random programs for comparing compiled with eager: source text from a seed.

A program is a function of (x, y, w, model, n, lr, flag) and what it is called with, four times, all
of it Python source, so that a failure prints as something that a person reads.  Its statements are
those of `patterns.py`; what stands around them (branches, loops, contexts, errors) and the calls are
made here.  `worlds.py` runs programs.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from .patterns import FLOATING, PATTERNS, choices

_HOLE = re.compile(r"\{([A-Z$])(!?)\}")
_RESULTS = re.compile(r"^(\s*)([A-Z$](?:, [A-Z$])*) ([=~^]) (.*)$")
_SAVING = re.compile(r"tanh|sigmoid|sqrt|relu|softmax|exp|amax|norm|max\(|dropout|cumsum")
CHOICES = {feature: choices(feature) for feature in PATTERNS}


@dataclass(frozen=True)
class Program:
    """A program, and the calls that a world makes of it."""

    seed: int
    source: str
    setup: str
    calls: tuple[str, ...]
    held: bool  # the caller keeps the results of all calls
    backward: str  # none, after each call, twice, or at the end
    deliberate: bool  # an error is among the statements on purpose
    features: Counter = field(default_factory=Counter, compare=False)

    def __str__(self) -> str:
        lines = [f"# seed {self.seed}: results held: {self.held}; backward: {self.backward}"]
        lines += ["# set up", self.setup]
        for index, call in enumerate(self.calls):
            lines += [f"# call {index}", call]
        return "\n".join([*lines, "", self.source])

    def but(self, **changes: Any) -> Program:
        """The program with some of its parts changed."""
        return replace(self, **changes)


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


class NotNow(Exception):
    """A statement has no fitting variable."""


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
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
        self.numbers += 1
        return self.numbers

    @contextmanager
    def block(self, header: str, keeps: bool = True) -> Iterator[None]:
        """An indented block; unless it keeps its variables, they are not used after it."""
        self.line(header)
        before, length = list(self.variables), len(self.lines)
        self.depth += 1
        yield
        if len(self.lines) == length:
            self.line("pass")
        self.depth -= 1
        if not keeps:
            self.variables = before

    # -- variables ---------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def new(self, kind: str, memory: Memory, grad: bool) -> Variable:
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
                results.append(self.results(made, filled[-1][1], used, [*written.values()], floating))
        for variable in written.values():
            variable.grad = variable.grad or any(v.grad for v in used)
            variable.memory.saved = False
        names = iter(results)
        for made, line in filled:
            self.line(f"{made[1]}{next(names)} = {line}" if made else line)

    def results(
        self, made: re.Match, line: str, used: list[Variable], written: list[Variable], floating: str
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
        features = [*PATTERNS, *BLOCKS]
        weights = [PATTERNS[f][0] for f in PATTERNS]
        weights += [0.0 if self.depth > 2 else BLOCKS[f][0] for f in BLOCKS]
        for _ in range(20):
            (feature,) = self.random.choices(features, weights)
            before = len(self.variables)
            try:
                if feature in BLOCKS:
                    BLOCKS[feature][1](self)
                else:
                    self.pattern(self.random.choice(CHOICES[feature]))
            except NotNow:
                del self.variables[before:]
                continue
            self.features[feature] += 1
            return

    def body(self, most: int = 3) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement()

    # -- the whole ---------------------------------------------------------------------------------

    def program(self) -> Program:
        setup, calls = self.inputs()
        for _ in range(self.random.choice([3, 5, 7, 9, 12])):
            self.statement()
        self.returned()
        source = "def program(x, y, w, model, n, lr, flag):\n" + "\n".join(
            ["    " + line for line in sorted(self.globals)] + self.lines
        )
        backward = self.random.choices(["none", "each", "twice", "end"], [2, 5, 1, 1.5])[0]
        return Program(
            self.seed, source + "\n", setup, tuple(calls), self.chance(0.6), backward,
            self.deliberate, self.features,
        )  # fmt: skip

    def returned(self) -> None:
        """What the program gives: tensors, inputs, numbers and None in nested containers."""
        recent = self.variables[-5:] + self.random.choices(self.variables, k=3)
        terms = [v.name for v in self.random.sample(recent, self.random.randint(1, 6))]
        terms += [t for t in ("x", "y", "None", "n", "lr", "x[:1]", "w.t()") if self.chance(0.06)]
        if self.chance(0.1):
            terms.append(terms[0])
        form = self.random.choices(["one", "tuple", "dict", "nested", "none"], [4, 5, 1.5, 1.5, 0.3])
        self.features["returned: " + form[0]] += 1
        joined = ", ".join(terms)
        self.line(
            {
                "one": f"return {terms[0]}",
                "tuple": f"return {joined}",
                "dict": f'return {{"a": {terms[0]}, "b": [{joined}]}}',
                "nested": f'return [{terms[0]}, ({joined}, {{"c": {terms[-1]}}})]',
                "none": "return None",
            }[form[0]]
        )

    def call_kind(self, first: tuple, varying: dict[str, bool], number: int) -> tuple:
        """What calls of one kind have in common: (size, lr, n, flag, other inputs, ambient mode)."""
        size, lr, n, flag = first
        if number:
            size = self.random.randint(1, 6) if varying["size"] else size
            lr = self.random.choice([0.0, 0.1, 0.25, -0.5, 1e-3]) if varying["lr"] else lr
            n = self.random.randint(0, 4) if varying["n"] else n
            flag = not flag if varying["flag"] else flag
        other = varying["form"] and self.chance(0.5)
        return size, lr, n, flag, other, self.chance(0.5) if varying["ambient"] else True

    def inputs(self) -> tuple[str, list[str]]:
        """The set up and the calls; the inputs become the first variables."""
        dtype = self.random.choices(["float32", "float64", "bfloat16"], [7, 2, 0.7])[0]
        model = self.random.choices(
            ["Mlp", "Normed", "Dropping", "Recurrent", "Embedder", "Stateful"], [3, 2, 1.5, 0.7, 1, 2]
        )[0]
        if dtype == "bfloat16" and model == "Recurrent":
            model = "Mlp"
        self.features[f"dtype: {dtype}"] += 1
        self.features[f"model: {model}"] += 1
        w_leaf = self.chance(0.8)
        setup = [f"model = {model}().to(device, torch.{dtype})", f"w = normal(1, 4, 4, dtype=torch.{dtype})"]
        if self.chance(0.2):
            setup.append("w = w.t()")
        if w_leaf:
            setup.append("w.requires_grad_()")
        kind = self.random.choice(
            ["SGD(params, lr=0.1)", "SGD(params, lr=0.1, momentum=0.9)", "Adam(params, lr=0.01)"]
        )
        setup += ["params = [*model.parameters(), w]", f"optimizer = torch.optim.{kind}"]
        x_form = self.random.choices(
            ["plain", "leaf", "result", "view", "transposed", "kept"], [5, 2, 2, 1.5, 1.5, 1.5]
        )[0]
        y_form = self.random.choices(
            ["plain", "x", "view of x", "overlapping", "int64", "bool", "0-dim", "float64"],
            [5, 1, 1, 1, 1, 1, 1, 1],
        )[0]
        self.features[f"x: {x_form}"] += 1
        self.features[f"y: {y_form}"] += 1
        modes = ["", *["torch.no_grad()"] * 3, "torch.inference_mode()", "torch.autocast(device, torch.bfloat16)"]
        mode = self.random.choice(modes) if self.chance(0.25) else ""
        calls = []
        # Which calls are alike: a compiler's second and third calls should often meet what it knows.
        alike = self.random.choices(
            [(0, 0, 0, 0), (0, 0, 1, 0), (0, 1, 0, 1), (0, 0, 1, 1), (0, 1, 2, 3)], [9, 4, 2, 2, 3]
        )[0]
        self.features["calls alike: " + "".join("ABCD"[k] for k in alike)] += 1
        shares = {"size": 0.5, "lr": 0.4, "n": 0.5, "flag": 0.5, "form": 0.3, "ambient": 0.5}
        varying = {name: self.chance(share) for name, share in shares.items()}
        always_lr, new_numbers = self.chance(0.3), self.chance(0.75)
        first = (self.random.randint(2, 5), 0.125, self.random.randint(1, 3), self.chance(0.5))
        kinds = [self.call_kind(first, varying, k) for k in range(4)]
        special = self.random.choice(["zeros", "special"]) if self.chance(0.15) else ""
        empty = self.random.randrange(4) if self.chance(0.04) else None
        for index in range(4):
            size, lr, n, flag, plain, ambient = kinds[alike[index]]
            if always_lr:
                lr = self.random.choice([0.0, 0.1, 0.25, -0.5, 1e-3])
            b = 0 if index == empty else size
            seed = index * 10 + 2 if new_numbers else 2
            lines = [f"n, lr, flag = {n}, {lr}, {flag}"]
            make = f"normal({seed}, {b}, 4, dtype=torch.{dtype}{', ' + special + '=True' if special else ''})"
            if x_form == "kept" and index:
                if self.chance(0.5):
                    lines.append(self.random.choice(["x.data.mul_(0.5)", "x.fill_(n / 2)", "x.add_(1)"]))
            elif x_form in ("plain", "kept") or plain:
                lines.append(f"x = {make}")
            elif x_form == "leaf":
                lines.append(f"x = {make}.requires_grad_()")
            elif x_form == "result":
                lines.append(f"x0 = {make}.requires_grad_()\nx = x0 * 2")
            elif x_form == "view":
                lines.append(f"x0 = normal({seed}, {b + 2}, 4, dtype=torch.{dtype})\nx = x0[1:-1]")
            else:
                lines.append(f"x = normal({seed}, 4, {b}, dtype=torch.{dtype}).t()")
            form = "plain" if y_form in ("x", "view of x") and plain else y_form
            lines.append(
                {
                    "plain": f"y = normal({seed + 1}, x.shape[0], 4, dtype=torch.{dtype})",
                    "x": "y = x",
                    "view of x": "y = x[:]",
                    "overlapping": f"y0 = normal({seed + 1}, x.shape[0] + 1, 4, dtype=torch.{dtype})\n"
                    "x, y = (y0[:-1], y0[1:]) if n else (y0[1:], y0[1:])",
                    "int64": f"y = integers({seed + 1}, x.shape[0], 4)",
                    "bool": f"y = integers({seed + 1}, x.shape[0], 4) > 0",
                    "0-dim": f"y = normal({seed + 1}, dtype=torch.{dtype})",
                    "float64": f"y = normal({seed + 1}, x.shape[0], 4, dtype=torch.float64)",
                }[form]
            )
            if self.chance(0.15):
                lines.append(f"setting = {self.random.choice([0.5, 2.0, 3.0])}")
            if mode and ambient:
                lines.append(f"ambient = {mode}")
            calls.append("\n".join(lines))
        if mode:
            self.features["ambient: " + mode.split("(")[0]] += 1
        if empty is not None:
            self.features["empty x"] += 1

        x_memory = Memory(leaf=x_form == "leaf")
        if y_form == "overlapping":
            x_memory = Memory()
        y_memory = x_memory if y_form in ("x", "view of x", "overlapping") else Memory()
        x_grad = x_form in ("leaf", "result") and y_form != "overlapping"
        self.variables.append(Variable("x", "M", x_memory, x_grad))
        y_kind = {"int64": "I", "bool": "K", "0-dim": "S", "float64": "N"}.get(y_form, "M")
        self.variables.append(Variable("y", y_kind, y_memory, x_grad and y_memory is x_memory))
        self.variables.append(Variable("w", "W", Memory(leaf=w_leaf), w_leaf))
        self.allowed = {
            "w": w_leaf,
            "g": w_leaf and not mode,
            "n": dtype != "bfloat16",
        }
        for name in ("row", "values"):
            if self.chance(0.6):
                self.pattern({"row": "R = {W}[0] * 1", "values": "V = {M}.sum(1)"}[name])
        for text in ("S = {M}.sum()", "J = torch.arange(x.shape[0], device=device) % 4", "K = {M} > 0",
                     "P = torch.arange(x.shape[0], device=device).flip(0)", "T = {M}.t() * 1"):  # fmt: skip
            if self.chance(0.35):
                self.pattern(text)
        return "\n".join(setup), calls


# -- statements that hold others -----------------------------------------------------------------------


def _branch(writer: Writer) -> None:
    """A branch on a tensor's value, a flag, a number, a size, a mode or state."""
    total = writer.pick(writer.random.choice("MRVW"), False).name
    values = [f"{total}.sum() > 0", f"({total} > 0.5).any()", f"{total}.mean().item() < lr"]
    condition = writer.random.choice(
        [*values, *values, f"{total}.sum() > 0", f"({total} > 0).all()", "flag", "n > 1", "lr > 0.1", "x.shape[0] > 3",
         "torch.is_grad_enabled()", "state[0] % 2", "x is y", "x.requires_grad", f"{total}.mean().item() < n",
         "x.is_contiguous()", "len(log) > 3"]
    )  # fmt: skip
    with writer.block(f"if {condition}:", keeps=False):
        writer.body()
    if writer.chance(0.5):
        with writer.block("else:", keeps=False):
            writer.body()


def _loop(writer: Writer) -> None:
    """A loop whose number of turns may vary."""
    total = writer.pick(writer.random.choice("MRW"), False).name
    number = writer.number()
    if writer.chance(0.2):
        with writer.block(f"for i{number} in range(4):", keeps=False):
            writer.body(2)
            with writer.block(f"if ({total}.sum() * i{number}).item() > n:", keeps=False):
                writer.line("break")
        return
    count = writer.random.choice(["n", "n", "x.shape[0]", "2", "len(state)"])
    with writer.block(f"for i{number} in range({count}):", keeps=False):
        writer.body(2)
        if writer.chance(0.4):
            name = writer.pick("M", False).name
            if name not in ("x", "y"):
                writer.line(f"{name} = {name} * (i{number} + lr)")


def _modes(writer: Writer) -> None:
    """A context that says whether gradients are recorded."""
    header, recording = writer.random.choice(
        [("torch.no_grad()", False), ("torch.enable_grad()", True), ("torch.set_grad_enabled(flag)", True),
         ("torch.inference_mode()", False), ("logged('mode')", True)]
    )  # fmt: skip
    before = writer.recording
    inference = "inference" in header
    with writer.block(f"with {header}:", keeps=not inference):
        if header != "logged('mode')":
            writer.recording = recording
        writer.body()
        writer.recording = before


def _function(writer: Writer) -> None:
    """An inner function, called twice, that writes what it closes over."""
    number = writer.number()
    m = writer.pick("M", False).name
    writer.line(f"sum{number} = 0.0")
    with writer.block(f"def inner{number}(t, factor=lr):", keeps=False):
        writer.line(f"nonlocal sum{number}")
        writer.line(f"sum{number} = sum{number} + t.sum() * factor")
        writer.line("return t * factor + n")
    result = writer.new("M", Memory(), True)
    writer.line(f"{result.name} = inner{number}(inner{number}({m}), 0.5) + sum{number}")


def _failing(writer: Writer) -> str:
    """A line that raises, perhaps only in some calls."""
    m, number = writer.pick("M", False).name, writer.number()
    return writer.random.choice(
        [
            f'raise ValueError(f"at {{n}}, {{{m}.shape}}")',
            f"torch.cat([{m}, {m}.flatten()])",
            f"{m} @ torch.ones(3, 3, dtype=x.dtype, device=device)",
            f"{m}.view(7, 7, 7)",
            f"{m}.sum(5)",
            f"{m}[99]",
            f"{m}.t().contiguous().add_(torch.ones(9, 9, device=device))",
            f"u{number} = [][{m}.dim()]",
            f"assert {m}.sum() is None, 'never'",
            f"{m}.no_such_method()",
        ]
    )


def _error(writer: Writer) -> None:
    """An error that leaves the program, after a write."""
    failing = _failing(writer)
    condition = writer.random.choice(["if n > 2:", "if flag:", "if state[0] == 1:", "if lr > 0.1:"])
    target = writer.pick("M", True).name
    writer.line(f"{target}.add_(1)")
    writer.line("state[0] += 1")
    with writer.block(condition, keeps=False):
        writer.line(failing)
    writer.deliberate = True


def _caught(writer: Writer) -> None:
    """An error that the program catches, with statements before it."""
    failing = _failing(writer)
    with writer.block("try:", keeps=False):
        writer.body(2)
        with writer.block(writer.random.choice(["if flag:", "if n > 1:", "if True:"]), keeps=False):
            writer.line(failing)
    with writer.block("except (ValueError, RuntimeError, IndexError, AssertionError, AttributeError) as e:"):
        writer.line("log.append(type(e).__name__ + str(e))")
    if writer.chance(0.3):
        with writer.block("finally:", keeps=False):
            writer.body(1)


def _warned(writer: Writer) -> None:
    """A warning of the program's own between tensors."""
    writer.line("import warnings")
    writer.line('warnings.warn(f"now {n}", UserWarning)')


BLOCKS: dict[str, tuple[float, Callable[[Writer], None]]] = {
    "branches": (3.5, _branch),
    "loops": (2.5, _loop),
    "grad modes": (2.5, _modes),
    "inner functions": (1, _function),
    "errors": (0.7, _error),
    "caught errors": (1.2, _caught),
    "warnings": (0.3, _warned),
}


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Writer(seed).program()
