"""What a record does along each axis of its inputs and outputs.

# Note [Axes]
A call's axes are letters: one for each dim of each input and output.  What a letter stands for is
its role:

    mapped       in inputs and outputs; what lies at one place depends on that place alone
    contracted   in inputs alone: summed, or otherwise taken together
    joint        in inputs and outputs; each place depends on all (normalised, scanned, sorted)
    indexed      of an input: places are picked, by an index or by the record's params
    windowed     in both, of other sizes: neighbours give neighbours (convolution, pools, padding)
    new          in outputs alone

Kinds derive them.  A record of no kind says them by `axes=`: "mk,kn->mn", where a letter in several
places is one axis, "..." stands for any dims in front, "*" after a letter says joint, "@" indexed,
"~" windowed, "=" is an operand that broadcasts against the first output, and "?" is not described;
or a function of the inputs and params that gives such a text.  A dim of one that is repeated has no
letter, but "".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tritorch.arrays.meta import MetaArray

Letters = tuple[str, ...]
ROLES = {"": "mapped", "*": "joint", "@": "indexed", "~": "windowed"}
_ITEM = re.compile(r"\.\.\.|([a-zA-Z][0-9]*)([*@~]?)")


class Axes(NamedTuple):
    """The letters of a call's inputs and outputs, None where nothing is said; a role for each."""

    inputs: tuple[Letters | None, ...]
    outputs: tuple[Letters | None, ...]
    roles: dict[str, str]


def axes_of(op: Any, specs: Sequence[Any], params: tuple[Any, ...]) -> Axes | None:
    """The axes of a call for inputs as described; None if nobody has said them."""
    found = op.infer(specs, params)
    outs = list(found) if isinstance(found, tuple) else [found]
    rule = op.rules.axes or BY_KIND.get(op.kind)
    rule = NAMED.get(rule, rule)
    if rule is None and op.runs_composed and op.layout == "elementwise":
        rule = elementwise
    if rule is None:
        return None
    if isinstance(rule, str):
        return written(rule, specs, outs)
    if rule in DERIVED:
        return rule(op, specs, params, outs)
    text: Any = rule(*specs, *params)
    return written(text, specs, outs)


# ---- as text -------------------------------------------------------------------------------------


def written(text: str, specs: Sequence[Any], outs: Sequence[Any]) -> Axes:
    """The axes that a text describes."""
    left, right = text.split("->")
    roles: dict[str, str] = {}
    outputs = tuple(
        _letters(part, out, roles) for part, out in itertools.zip_longest(right.split(","), outs)
    )
    parts = left.split(",")
    inputs = tuple(
        _aligned(x, outs[0], outputs[0]) if part == "=" else _letters(part, x, roles)
        for part, x in zip(parts, specs)
    )
    return _with_roles(inputs, outputs, roles)


def _letters(part: str | None, x: Any, roles: dict[str, str]) -> Letters | None:
    if part in (None, "?") or type(x) is not MetaArray:
        return None
    items = [(m[0], m[1], m[2]) for m in _ITEM.finditer(part or "")]
    named = sum(whole != "..." for whole, _, _ in items)
    found: list[str] = []
    for whole, letter, mark in items:
        if whole == "...":
            count = len(x.shape) - named
            found += [f"_{count - i}" for i in range(count)]
        else:
            found.append(letter)
            if mark:
                roles[letter] = ROLES[mark]
    return tuple(found)


def _aligned(x: Any, out: MetaArray, letters: Letters | None) -> Letters | None:
    """The letters of an operand that broadcasts against an output."""
    if type(x) is not MetaArray or letters is None:
        return None
    ours = letters[len(letters) - len(x.shape) :]
    theirs = out.shape[len(letters) - len(x.shape) :]
    return tuple("" if n == 1 != m else c for n, m, c in zip(x.shape, theirs, ours))


def _with_roles(inputs: Any, outputs: Any, roles: dict[str, str]) -> Axes:
    given = {letter for each in inputs if each for letter in each if letter}
    gives = {letter for each in outputs if each for letter in each if letter}
    found = dict.fromkeys(sorted(given - gives), "contracted") | dict.fromkeys(gives - given, "new")
    found |= dict.fromkeys(given & gives, "mapped")
    return Axes(tuple(inputs), tuple(outputs), found | roles)


# ---- by kind -------------------------------------------------------------------------------------


def _numbered(n: int) -> Letters:
    return tuple(f"_{n - i}" for i in range(n))


def elementwise(op: Any, specs: Sequence[Any], params: Any, outs: Sequence[Any]) -> Axes:
    """Dims are aligned from the last one; a loss of a single number contracts all of them."""
    shapes = [x.shape for x in specs if type(x) is MetaArray]
    n = max(map(len, shapes))
    wide = tuple(max(shape[i - n] for shape in shapes if len(shape) >= n - i) for i in range(n))
    letters = _numbered(n)
    inputs = tuple(_aligned(x, MetaArray(wide, outs[0].dtype), letters) for x in specs)
    outputs = tuple(letters if len(out.shape) == n else () for out in outs)
    return _with_roles(inputs, outputs, {})


def along_params(op: Any, specs: Sequence[Any], params: Any, outs: Sequence[Any]) -> Axes:
    """The params `dims` or `dim` say which axes are taken together; `keepdim` leaves ones."""
    named = dict(zip(op.params, params))
    dims = named["dims"] if "dims" in named else named["dim"]
    gone = {dims} if isinstance(dims, int) else set(dims)
    letters = _numbered(len(specs[0].shape))
    inputs = tuple(letters if type(x) is MetaArray else None for x in specs)
    kept = tuple("" if i in gone else c for i, c in enumerate(letters))
    less = tuple(c for i, c in enumerate(letters) if i not in gone)
    whole = len(outs[0].shape) == len(letters)
    joint = op.kind in ("scan", "fft") or op.rules.axes is not None
    outputs = tuple((letters if joint else kept) if whole else less for _ in outs)
    roles = {letters[dim]: "joint" for dim in gone} if joint and whole else {}
    return _with_roles(inputs, outputs, roles)


def matrices(op: Any, specs: Sequence[Any], params: Any, outs: Sequence[Any]) -> Axes:
    """Dims in front of matrices are a batch, alike in all; the matrices' own are taken together."""
    first = next(x for x in specs if type(x) is MetaArray)
    n = len(first.shape) - (1 if op.name == "lu_order" else 2)
    lead = tuple(f"b{i}" for i in range(n))

    def letters(side: str, k: int, x: Any) -> Letters | None:
        if type(x) is not MetaArray or len(x.shape) < n:
            return None
        return (*lead, *(f"{side}{k}m{i}" for i in range(len(x.shape) - n)))

    inputs = [letters("i", k, x) for k, x in enumerate(specs)]
    outputs = [letters("o", k, x) for k, x in enumerate(outs)]
    return _with_roles(inputs, outputs, {})


def of_view(op: Any, specs: Sequence[Any], params: Any, outs: Sequence[Any]) -> Axes:
    """A view's dims are those of its source that have their strides; others are new."""
    (x,), (out,) = specs, outs
    letters = _numbered(len(x.shape))
    free = {(step, n): c for step, n, c in zip(x.strides, x.shape, letters) if not _is_one(n)}
    steps = {step: c for (step, _), c in free.items()}
    found, roles = [], {}
    for i, (step, n) in enumerate(zip(out.strides, out.shape)):
        c = free.pop((step, n), None)
        if c is None and not _is_one(n):
            c = next((c for s, c in steps.items() if _divides(s, step)), None)
            if c is not None:
                roles[c] = "indexed"
                c = None
        found.append(c or f"n{i}")
    kept = {c for c in found if c in letters}
    for c in letters:
        if c not in kept:
            roles.setdefault(c, "indexed")
    return _with_roles(
        (letters,), (tuple(found),), {c: r for c, r in roles.items() if c in letters}
    )


def _is_one(n: Any) -> bool:
    return type(n) is int and n == 1


def _divides(step: Any, other: Any) -> bool:
    return type(step) is int is type(other) and step > 0 and other > 0 and other % step == 0


BY_KIND: dict[str, Callable[..., Any]] = {
    "pointwise": elementwise, "reduction": along_params, "scan": along_params, "fft": along_params,
    "linalg": matrices, "view": of_view,
}  # fmt: skip
NAMED: dict[Any, Any] = {"elementwise": elementwise, "along": along_params}
DERIVED = frozenset(BY_KIND.values())
