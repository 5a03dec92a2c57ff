"""einsum: subscripts are parsed, then operands are contracted pair by pair, cheapest first."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from tritorch.core.arguments import type_name
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.matmul import bmm
from tritorch.ops.record.ends import ends_as
from tritorch.ops.shape.shape import reshape

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _Paths:
    """Who says in which order operands are multiplied: opt_einsum, where it is installed."""

    enabled = find_spec("opt_einsum") is not None
    strategy = "auto" if enabled else None


paths = _Paths()


def _path(terms: Any, output: list[str], sizes: dict[str, int]) -> Iterator[tuple[int, int]]:
    """The pairs to multiply, as opt_einsum chooses them."""
    import opt_einsum

    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}
    spelt = lambda labels: "".join(symbols[label] for label in labels)
    equation = ",".join(spelt(labels) for _, labels in terms) + "->" + spelt(output)
    shapes = [tuple(sizes[label] for label in labels) for _, labels in terms]
    found, _ = opt_einsum.contract_path(
        equation, *shapes, shapes=True, optimize=paths.strategy or "auto"
    )
    count = len(terms)
    for step in found:
        left = sorted(step)
        while len(left) > 1:  # of more than two, the result of two goes on with the others
            i, j, *others = left
            yield i, j
            count -= 1
            left = [*(each - 2 for each in others), count - 1]


def contract(*args: Any) -> Tensor:
    """einsum("ij,jk->ik", a, b) or einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    equation, operands = _read(args)
    inputs, output = _parse(equation, tuple([x.ndim for x in operands]))
    sizes = _sizes(inputs, operands)
    terms = [_diagonals(x, labels) for x, labels in zip(operands, inputs)]
    path = _path(terms, output, sizes) if len(terms) > 2 and paths.enabled else None
    while len(terms) > 1:
        i, j = next(path) if path else _cheapest(terms, output, sizes)
        second, first = terms.pop(j), terms.pop(i)
        keep = set(output).union(*(labels for _, labels in terms))
        terms.append(_pair(first, second, keep))
    return _arrange(*terms[0], output, len(operands) > 1)


def _read(args: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    if not args:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or "
            "at least one operand and its subscripts list"
        )
    if isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        if not operands:
            raise ValueError(
                "einsum(): must specify the equation string and at least one operand, or "
                "at least one operand and its subscripts list"
            )
        for k, operand in enumerate(operands):
            if not isinstance(operand, Tensor):
                raise TypeError(
                    f"expected Tensor as element {k} in argument 1, but got {type_name(operand)}"
                )
        return args[0], list(operands)
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or "
            "at least one operand and its subscripts list"
        )
    letter = lambda s: "..." if s is Ellipsis else _letter(s)
    pairs = len(args) // 2
    equation = ",".join("".join(map(letter, args[2 * i + 1])) for i in range(pairs))
    if len(args) % 2:
        equation += "->" + "".join(map(letter, args[-1]))
    return equation, [args[2 * i] for i in range(pairs)]


def _letter(s: int) -> str:
    if not (s >= 0 and s < len(_LETTERS)):
        raise ValueError(
            "einsum(): subscript in subscript list is not within the valid range [0, 52)"
        )
    return _LETTERS[s]


def _labels(term: str, what: str, start: int) -> list[str]:
    """The subscripts of one operand, or of the output; start: where they begin in the equation."""
    before, dots, after = term.partition("...")
    for at, char in enumerate(term):
        if char == "." and not len(before) <= at < len(before) + 3:
            if dots and at > len(before):
                why = (
                    "but an ellipsis (...) was already found" if what == "output"
                    else "for which an ellipsis was already found"
                )  # fmt: skip
            else:
                why = "that is not part of any ellipsis" + " (...)" * (what == "output")
            raise RuntimeError(f"einsum(): found '.' for {what} {why}")
        if not ((char.isalpha() and char.isascii()) or char in " ."):
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + at} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
    before, after = before.replace(" ", ""), after.replace(" ", "")
    return [*before, *(["..."] if dots else []), *after]


@functools.lru_cache(256)
def _parse(equation: str, ranks: tuple[int, ...]) -> tuple[list[list[str]], list[str]]:
    """The labels of operands with so many dims, and of the result."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        more = "more" if len(terms) < len(ranks) else "fewer"
        raise RuntimeError(
            f"einsum(): {more} operands were provided than specified in the equation"
        )
    starts = [sum(len(term) + 1 for term in terms[:i]) for i in range(len(terms))]
    parsed = [
        _labels(term, f"operand {i}", start) for i, (term, start) in enumerate(zip(terms, starts))
    ]
    width = 0
    for i, (labels, rank) in enumerate(zip(parsed, ranks)):
        plain = len(labels) - ("..." in labels)
        if "..." in labels:
            if rank < plain:
                _wrong_rank(i, rank, plain)
            width = max(width, rank - plain)
        elif rank != plain:
            _wrong_rank(i, rank, plain)
    full = []
    for labels, rank in zip(parsed, ranks):
        if "..." in labels:
            at = labels.index("...")
            n = rank - (len(labels) - 1)
            labels = [*labels[:at], *(f".{k}" for k in range(width - n, width)), *labels[at + 1 :]]
        full.append(labels)
    dots = [f".{k}" for k in range(width)]
    if arrow:
        output = []
        for label in _labels(right, "output", len(left) + 2):
            output.extend(dots if label == "..." else [label])
        for label in output:
            if not label.startswith(".") and not any(label in labels for labels in full):
                raise RuntimeError(
                    f"einsum(): output subscript {label} does not appear in the equation for any "
                    f"input operand"
                )
        if len(set(output)) != len(output):
            twice = next(label for label in output if output.count(label) > 1)
            raise RuntimeError(
                f"einsum(): output subscript {twice} appears more than once in the output"
            )
    else:
        everything = [label for labels in full for label in labels]
        once = sorted({v for v in everything if everything.count(v) == 1 and not v.startswith(".")})
        output = dots + once
    return full, output


def _wrong_rank(i: int, rank: int, plain: int) -> None:
    raise RuntimeError(
        f"einsum(): the number of subscripts in the equation ({plain}) does not match the number "
        f"of dimensions ({rank}) for operand {i} and no ellipsis was given"
    )


def _sizes(inputs: list[list[str]], operands: list[Tensor]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for i, (labels, x) in enumerate(zip(inputs, operands)):
        own: dict[str, int] = {}
        for label, n in zip(labels, x.shape):
            if own.setdefault(label, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {i} but the sizes don't "
                    f"match, {n} != {own[label]}"
                )
        for label, n in zip(labels, x.shape):
            have = sizes.get(label, 1)
            if have != n and have != 1 and n != 1:
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {n} for operand {i} which does not "
                    f"broadcast with previously seen size {have}"
                )
            sizes[label] = max(have, n) if have != 0 and n != 0 else 0
    return sizes


def _diagonals(x: Tensor, labels: list[str]) -> tuple[Tensor, list[str]]:
    """Repeated labels of one operand: its diagonal."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand but the sizes don't "
                    f"match, {x.shape[j]} != {x.shape[i]}"
                )
            x = x.diagonal(0, i, j)
            labels.pop(j)
            labels.pop(i)
            labels.append(label)
    return x, labels


def _cheapest(terms: Any, output: list[str], sizes: dict[str, int]) -> tuple[int, int]:
    """The pair whose contraction grows memory least (then costs least): greedy, as opt_einsum's."""
    if len(terms) == 2:
        return 0, 1
    best = None
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            a, b = set(terms[i][1]), set(terms[j][1])
            rest = set(output).union(*(t[1] for k, t in enumerate(terms) if k not in (i, j)))
            size = lambda labels: math.prod(sizes[label] for label in labels)
            kept = (a | b) & rest
            cost = (size(kept) - size(a) - size(b), size(a | b), i, j)
            if best is None or cost < best:
                best = cost
    assert best is not None
    return best[2], best[3]


def _pair(first: Any, second: Any, keep: set[str]) -> tuple[Tensor, list[str]]:
    """Two terms as one batched matrix product."""
    (a, la), (b, lb) = first, second
    # What only one term has and nobody keeps is summed first.
    a, la = _sum_out(a, la, keep | set(lb))
    b, lb = _sum_out(b, lb, keep | set(la))
    size = lambda x, labels, v: x.shape[labels.index(v)]
    shared = [v for v in la if v in lb]
    batch = [v for v in shared if v in keep]
    summed = [v for v in shared if v not in keep]
    # A dim of size 1 broadcasts: it is no contraction with the other's.
    for v in list(summed):
        if size(a, la, v) != size(b, lb, v):
            if size(a, la, v) == 1:
                b, lb = _sum_out(b, lb, (set(lb) | keep) - {v})
                a, la = a.squeeze(la.index(v)), [w for w in la if w != v]
            else:
                a, la = _sum_out(a, la, (set(la) | keep) - {v})
                b, lb = b.squeeze(lb.index(v)), [w for w in lb if w != v]
            summed.remove(v)
    free_a = [v for v in la if v not in batch and v not in summed]
    free_b = [v for v in lb if v not in batch and v not in summed]
    sizes = [
        max(size(a, la, v), size(b, lb, v)) if 0 not in (size(a, la, v), size(b, lb, v)) else 0
        for v in batch
    ]
    x = a.permute([la.index(v) for v in (*batch, *free_a, *summed)]) if la else a
    y = b.permute([lb.index(v) for v in (*batch, *summed, *free_b)]) if lb else b
    x = x.expand(*sizes, *x.shape[len(batch) :]) if batch else x
    y = y.expand(*sizes, *y.shape[len(batch) :]) if batch else y
    n, k, m = (
        math.prod(size(a, la, v) for v in free_a),
        math.prod(size(a, la, v) for v in summed),
        math.prod(size(b, lb, v) for v in free_b),
    )
    labels = [*batch, *free_a, *free_b]
    shape = [*sizes, *(size(a, la, v) for v in free_a), *(size(b, lb, v) for v in free_b)]
    if k == 1:  # nothing to add: a broadcast product
        left = reshape(x, (*sizes, *(size(a, la, v) for v in free_a), *(1,) * len(free_b)))
        right = reshape(y, (*sizes, *(1,) * len(free_a), *(size(b, lb, v) for v in free_b)))
        return left * right, labels
    count = math.prod(sizes)
    product = bmm(reshape(x, (count, n, k)), reshape(y, (count, k, m)))
    return ends_as("view", reshape(product, shape)), labels


def _sum_out(x: Tensor, labels: list[str], keep: set[str]) -> tuple[Tensor, list[str]]:
    drop = [i for i, v in enumerate(labels) if v not in keep]
    if drop:
        x = x.sum(drop)
        labels = [v for v in labels if v in keep]
    return x, labels


def _arrange(x: Tensor, labels: list[str], output: list[str], contracted: bool) -> Tensor:
    x, labels = _sum_out(x, labels, set(output))
    order = [labels.index(v) for v in output]
    if contracted and order == sorted(order) and len(order) == x.ndim:
        return x  # its node is the product's
    return x.permute(order) if output else x
