"""Statements of random programs that hold others: branches, loops, contexts, functions, errors."""

from __future__ import annotations

from collections.abc import Callable

from .writer import Memory, Writer

# What a branch may ask that is no tensor's value.
CONDITIONS = [
    "flag", "n > 1", "lr > 0.1", "x.shape[0] > 3", "torch.is_grad_enabled()", "state[0] % 2",
    "x is y",
    "x.requires_grad", "x.is_contiguous()", "len(log) > 3",
]  # fmt: skip

# Contexts, and whether gradients are recorded inside; None: as outside.
CONTEXTS = [
    ("torch.no_grad()", False),
    ("torch.enable_grad()", True),
    ("torch.set_grad_enabled(flag)", True),
    ("torch.inference_mode()", False),
    ("logged('mode')", None),
]


def _branch(writer: Writer) -> None:
    """A branch on a tensor's value, a flag, a number, a size, a mode or state."""
    total = writer.pick(writer.random.choice("MRVW"), False).name
    values = [f"{total}.sum() > 0", f"({total} > 0.5).any()", f"{total}.mean().item() < lr"]
    others = CONDITIONS + [f"({total} > 0).all()"]
    with writer.block(f"if {writer.random.choice(values * 3 + others)}:", keeps=False):
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
    header, recording = writer.random.choice(CONTEXTS)
    before = writer.recording
    # Inference tensors are not for what comes after.
    with writer.block(f"with {header}:", keeps="inference" not in header):
        writer.recording = before if recording is None else recording
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
    with writer.block("except Exception as e:"):
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
