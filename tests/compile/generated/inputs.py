"""What random programs are called with: a world's set up, and the text before each call: four, or
eight of sizes and numbers that grow and shrink.

The inputs are x, floating, (b, 4); y, which may be x, share its memory or be of another type; w, a
(4, 4) leaf that lives through all calls; a module; numbers.  Some calls are alike, so that a
compiler meets again what it knows; others are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .writer import Memory, NotNow, Variable, Writer

DTYPES = {"float32": 7, "float64": 2, "bfloat16": 0.7}
MODELS = {"Mlp": 3, "Normed": 2, "Dropping": 1.5, "Recurrent": 0.7, "Embedder": 1, "Stateful": 2}
OPTIMIZERS = {
    "SGD(params, lr=0.1)": 1,
    "SGD(params, lr=0.1, momentum=0.9)": 1,
    "Adam(params, lr=0.01)": 1,
}

# Forms of x; {make} makes numbers of a seed, (b, 4).
X = {
    "plain": (5, "x = {make}"),
    "leaf": (2, "x = {make}.requires_grad_()"),
    "result": (2, "x0 = {make}.requires_grad_()\nx = x0 * 2"),
    "view": (1.5, "x0 = torch.cat([{make}, {make}])\nx = x0[{b} // 2 : {b} // 2 + {b}]"),
    "transposed": (1.5, "x0 = {make}.t().contiguous()\nx = x0.t()"),
    "kept": (1.5, "x = {make}"),  # at the first call only: the others are given the same tensor
}
KEPT = ["x.data.mul_(0.5)", "x.fill_(n / 2)", "x.add_(1)", "", "", ""]

# Forms of y, and the kinds of value that they are.
Y = {
    "plain": (5, "M", "y = normal({seed}, x.shape[0], 4, dtype=torch.{dtype})"),
    "x": (1, "M", "y = x"),
    "view of x": (1, "M", "y = x[:]"),
    "overlapping": (
        1,
        "M",
        "y0 = normal({seed}, x.shape[0] + 1, 4, dtype=torch.{dtype})\n"
        "x, y = (y0[:-1], y0[1:]) if n else (y0[1:], y0[1:])",
    ),
    "int64": (1, "I", "y = integers({seed}, x.shape[0], 4)"),
    "bool": (1, "K", "y = integers({seed}, x.shape[0], 4) > 0"),
    "0-dim": (1, "S", "y = normal({seed}, dtype=torch.{dtype})"),
    "float64": (1, "N", "y = normal({seed}, x.shape[0], 4, dtype=torch.float64)"),
}

MODES = {
    "": 16,
    "torch.no_grad()": 3,
    "torch.inference_mode()": 1,
    "torch.autocast(device, torch.bfloat16)": 1,
}
ALIKE = {"AAAA": 9, "AABA": 4, "ABAB": 2, "AABB": 2, "ABCD": 3}  # letters: kinds of calls
NUMBERS = [0.0, 0.1, 0.25, -0.5, 1e-3]

# What programs often need beside the inputs.
FIRST = {
    "R = {W}[0] * 1": 0.6,
    "V = {M}.sum(1)": 0.6,
    "S = {M}.sum()": 0.35,
    "J = torch.arange(x.shape[0], device=device) % 4": 0.35,
    "K = {M} > 0": 0.35,
    "P = torch.arange(x.shape[0], device=device).flip(0)": 0.35,
    "T = {M}.t() * 1": 0.35,
}


GROWING = "ABCDEFGH"


@dataclass
class Call:
    """What calls of one kind have in common."""

    size: int
    lr: float
    n: int
    flag: bool
    other: bool = False  # x and y are plain instead of what they are otherwise
    mode: bool = True  # in the program's ambient mode, if it has one


def _kinds(writer: Writer) -> dict[str, Call]:
    """The kinds of calls: the first, and others that differ in some things."""
    draw = writer.random
    shares = {"size": 0.5, "lr": 0.4, "n": 0.5, "flag": 0.5, "other": 0.15, "mode": 0.25}
    first = Call(draw.randint(2, 5), 0.125, draw.randint(1, 3), writer.chance(0.5))
    varying = {name for name, share in shares.items() if writer.chance(share)}
    kinds = {"A": first}
    for letter in "BCD":
        drawn = {
            "size": draw.randint(1, 6),
            "lr": draw.choice(NUMBERS),
            "n": draw.randint(0, 4),
            "flag": not first.flag,
            "other": True,
            "mode": False,
        }
        kinds[letter] = Call(
            **{k: v if k in varying else getattr(first, k) for k, v in drawn.items()}
        )
    return kinds


def _growing(writer: Writer) -> dict[str, Call]:
    """Kinds of calls that differ in sizes and numbers alone."""
    draw = writer.random
    first = Call(draw.randint(2, 5), 0.125, draw.randint(1, 3), writer.chance(0.5))
    fixed = {name for name in ("size", "lr", "n") if writer.chance(0.25)}
    kinds = {"A": first}
    for letter in GROWING[1:]:
        drawn = {
            "size": draw.choice([draw.randint(2, 9), draw.randint(1, 9)]),
            "lr": draw.choice([*NUMBERS, draw.uniform(-1, 1), draw.uniform(0, 1)]),
            "n": draw.randint(0, 9),
        }
        new = {name: value for name, value in drawn.items() if name not in fixed}
        kinds[letter] = replace(first, **new)
    return kinds


def _choose(writer: Writer, name: str, weights: dict) -> str:
    """One of some forms by their weights, counted as a feature."""
    shares = [w[0] if isinstance(w, tuple) else w for w in weights.values()]
    (form,) = writer.random.choices([*weights], shares)
    if form:
        writer.features[f"{name}: {form.partition('(')[0]}"] += 1
    return form


def inputs(writer: Writer, growing: bool = False) -> tuple[str, list[str]]:
    """The set up and the calls; the inputs become the writer's first variables."""
    dtype = _choose(writer, "dtype", DTYPES)
    model = _choose(writer, "model", MODELS)
    leaf = writer.chance(0.8)
    setup = [
        f"model = {model}().to(device, torch.{dtype})",
        f"w = normal(1, 4, 4, dtype=torch.{dtype})" + (".t()" if writer.chance(0.2) else ""),
        "w.requires_grad_()" if leaf else "",
        "params = [*model.parameters(), w]",
        "optimizer = torch.optim." + _choose(writer, "optimizer", OPTIMIZERS),
    ]
    if writer.chance(0.15):
        setup.append("model.forward = compiled(model.forward)")
        writer.features["compiled method"] += 1
    x, y, mode = _choose(writer, "x", X), _choose(writer, "y", Y), _choose(writer, "mode", MODES)
    calls = _calls(writer, dtype, x, y, mode, growing)
    _variables(writer, x, y, leaf)
    writer.allowed = {"w": leaf, "g": leaf and not mode, "n": dtype != "bfloat16"}
    for pattern, share in FIRST.items():
        if writer.chance(share):
            try:
                writer.pattern(pattern)
            except NotNow:
                pass
    return "\n".join(line for line in setup if line), calls


def _calls(
    writer: Writer, dtype: str, x: str, y: str, mode: str, growing: bool
) -> list[str]:  # fmt: skip
    """The text before each call."""
    kinds = _growing(writer) if growing else _kinds(writer)
    alike = GROWING if growing else _choose(writer, "calls", ALIKE)
    new_rates, new_numbers = writer.chance(0.3), writer.chance(0.75)
    special = (
        writer.random.choice([", zeros=True", ", special=True"]) if writer.chance(0.15) else ""
    )
    empty = writer.random.randrange(4) if writer.chance(0.04) else None
    writer.features.update({"special numbers": special != "", "empty x": empty is not None})
    calls = []
    for index, letter in enumerate(alike):
        call = kinds[letter]
        lr = writer.random.choice(NUMBERS) if new_rates else call.lr
        b = 0 if index == empty else call.size
        seed = index * 10 + 2 if new_numbers else 2
        make = f"normal({seed}, {b}, 4, dtype=torch.{dtype}{special})"
        x_form = "plain" if call.other and x != "kept" else x
        y_form = "plain" if call.other and y in ("x", "view of x") else y
        lines = [f"n, lr, flag = {call.n}, {lr}, {call.flag}"]
        if x == "kept" and index:
            lines.append(writer.random.choice(KEPT))
        else:
            lines.append(X[x_form][1].format(make=make, b=b))
        lines.append(Y[y_form][2].format(seed=seed + 1, dtype=dtype))
        if writer.chance(0.15):
            lines.append(f"setting = {writer.random.choice([0.5, 2.0, 3.0])}")
        if mode and call.mode:
            lines.append(f"ambient = {mode}")
        calls.append("\n".join(line for line in lines if line))
    return calls


def _variables(writer: Writer, x: str, y: str, leaf: bool) -> None:
    """The inputs as variables."""
    replaced = y == "overlapping"  # x is then a view of what y is a view of
    memory = Memory(leaf=x == "leaf" and not replaced)
    grad = x in ("leaf", "result") and not replaced
    shared = y in ("x", "view of x", "overlapping")
    writer.variables += [
        Variable("x", "M", memory, grad),
        Variable("y", Y[y][1], memory if shared else Memory(), grad and shared),
        Variable("w", "W", Memory(leaf=leaf), leaf),
    ]
