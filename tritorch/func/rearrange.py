"""torch.func.rearrange: dims taken apart, reordered and put together, by a pattern of names."""

from __future__ import annotations

import functools
import keyword
import math
import re
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.shape.joining import stack

Groups = tuple[tuple[str, ...] | str, ...]  # of names; "..." by itself is an ellipsis

_TOKEN = re.compile(r"\s*(\(|\)|\.\.\.|[A-Za-z0-9_]+|$)")


def rearrange(
    tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int
) -> Tensor:
    """A tensor, or several that are stacked first, with other dims.

    >>> rearrange(images, "b h w c -> b (c h) w")
    """
    whole: Tensor = tensor if isinstance(tensor, Tensor) else stack(list(tensor))
    left, right = _parse(pattern)
    _check_lengths(left, pattern, axes_lengths)
    given = len(left) - ("..." in left)
    if whole.ndim < given or ("..." not in left and whole.ndim != given):
        how = "less than or equal" if "..." in left else "equal"
        raise ValueError(
            f"Number of dimensions in pattern ({given}) must be {how} to the number of dimensions "
            f"in the tensor ({whole.ndim})"
        )
    rest = [f".{i}" for i in range(whole.ndim - given)]
    sizes = _sizes(_spread(left, rest), whole, axes_lengths)
    names = list(sizes)
    groups = _spread(right, rest)
    order = [names.index(name) for group in groups for name in group]
    apart = whole.reshape(tuple(sizes.values())).permute(order)
    return apart.reshape(tuple(math.prod(sizes[name] for name in group) for group in groups))


def _spread(groups: Groups, rest: list[str]) -> list[tuple[str, ...]]:
    """Each resulting dim as the names in it; an ellipsis as the dims that it stands for."""
    out: list[tuple[str, ...]] = []
    for group in groups:
        if group == "...":
            out += [(name,) for name in rest]
        else:
            names = (n for name in group for n in (rest if name == "..." else [name]))
            out.append(tuple(name for name in names if name != "1"))
    return out


def _sizes(
    groups: list[tuple[str, ...]], tensor: Tensor, lengths: dict[str, int]
) -> dict[str, int]:
    """The size of each name, in the tensor's order."""
    sizes: dict[str, int] = {}
    for names, size in zip(groups, tensor.shape):
        unknown = [name for name in names if name not in lengths]
        known = math.prod(lengths[name] for name in names if name in lengths)
        if len(unknown) > 1:
            raise ValueError(f"cannot infer the lengths of more than one of {', '.join(unknown)}")
        if known <= 0 or size % known or (not unknown and size != known):
            raise ValueError(f"a dim of size {size} is not ({' '.join(names)}) with {lengths}")
        for name in names:
            sizes[name] = lengths.get(name, size // known)
    return sizes


@functools.lru_cache(256)
def _parse(pattern: str) -> tuple[Groups, Groups]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_parse_side(side) for side in sides)
    names = [{n for group in side for n in _group(group)} for side in (left, right)]
    if "..." in names[1] and "..." not in names[0]:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if "..." in names[0] and "..." not in left:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    numbers = {name for side in names for name in side if name.isdecimal()}
    if numbers - {"1"}:
        raise ValueError("rearrange only supports unnamed axes of size 1")
    difference = (names[0] ^ names[1]) - {"1"}
    if difference:
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{difference}"
        )
    return left, right


def _group(group: Any) -> tuple[str, ...]:
    return (group,) if isinstance(group, str) else group


def _parse_side(text: str) -> Groups:
    groups: list[Any] = []
    inner: list[str] | None = None
    seen: set[str] = set()
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            dots = text[at:].strip()[0] == "."
            raise ValueError(
                "Expression may contain dots only inside ellipsis (...)"
                if dots
                else f"Unknown character '{text[at:].strip()[0]}'"
            )
        token, at = match[1], match.end()
        if token == "(":
            if inner is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed)"
                )
            inner = []
        elif token == ")":
            if inner is None:
                raise ValueError("Brackets are not balanced")
            groups.append(tuple(inner))
            inner = None
        else:
            _check_name(token, seen)
            if inner is not None:
                inner.append(token)
            else:
                groups.append("..." if token == "..." else (token,))
    if inner is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
    return tuple(groups)


def _check_name(name: str, seen: set[str]) -> None:
    if name in seen and name != "1":
        if name == "...":
            raise ValueError(
                "Expression may contain dots only inside ellipsis (...); only one ellipsis for "
                "tensor "
            )
        raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
    seen.add(name)
    if name == "..." or name.isdecimal():
        if name.isdecimal() and int(name) < 1:
            raise ValueError(f"Anonymous axis should have positive length, not {int(name)}")
        return
    if not name.isidentifier() or keyword.iskeyword(name) or name[0] == "_" or name[-1] == "_":
        raise ValueError(f"Invalid axis identifier: {name}")


def _check_lengths(left: Groups, pattern: str, lengths: dict[str, int]) -> None:
    for length in lengths.values():
        if not isinstance(length, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    names = {name for group in left for name in _group(group)}
    unmatched = set(lengths) - names
    if unmatched:
        raise ValueError(f"Identifiers not found in rearrange expression: {unmatched}")
