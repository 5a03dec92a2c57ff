"""Records that say what they compute by smaller operators: that is what they compute."""

from __future__ import annotations

import itertools
from typing import Any

import tritorch as torch
from tritorch.core.dispatching import noting
from tritorch.ops.record.operator import OPERATORS

F = torch.nn.functional
# Rows before what is normalised: none, one, several; and several dims that are normalised.
LEAD, NORMALISED = ((), (1,), (4,), (2, 3)), ((5,), (2, 3))


def _norms(of: Any) -> Any:
    for lead, shape in itertools.product(LEAD, NORMALISED):
        x = torch.randn(*lead, *shape, requires_grad=True)
        weight, bias = (torch.randn(*shape, requires_grad=True) for _ in range(2))
        yield lambda x=x, shape=shape, w=weight, b=bias: of(x, shape, w, b)
        yield lambda x=x, shape=shape: of(x, shape, None, None)


def _grouped() -> Any:
    for size in ((1, 4), (2, 4, 3), (2, 4, 1, 5)):
        x, scale = torch.randn(size, requires_grad=True), torch.randn(4, requires_grad=True)
        yield lambda x=x, w=scale: F.group_norm(x, 2, w, w)


def _batches() -> Any:
    for size in ((3, 4), (2, 4, 3), (1, 4, 2, 5)):
        x, scale = torch.randn(size, requires_grad=True), torch.rand(4, requires_grad=True)
        running = torch.rand(4), torch.rand(4)
        yield lambda x=x, w=scale, r=running: F.batch_norm(x, *r, w, w, training=False)
        yield lambda x=x, w=scale, r=running: F.batch_norm(x, *r, w, w, training=True)


def _losses() -> Any:
    for rows, weighed, smoothing in itertools.product((1, 6), (False, True), (0.0, 0.1)):
        logits = torch.randn(rows, 7, requires_grad=True)
        target = torch.randint(0, 7, (rows,))
        weight = torch.rand(7) if weighed else None
        yield lambda x=logits, t=target, w=weight, s=smoothing: F.cross_entropy(
            x, t, w, label_smoothing=s, ignore_index=3
        )


def _spreads() -> Any:
    x = torch.randn(3, 4, 5, requires_grad=True)
    for dims, correction in itertools.product((None, 1, (0, 2), ()), (0, 1)):
        yield lambda d=dims, c=correction: torch.var(x, d, correction=c)
        yield lambda d=dims, c=correction: sum(
            each.sum() for each in torch.var_mean(x, d, correction=c)
        )


CALLS = {
    "layer_norm": lambda: _norms(F.layer_norm),
    "rms_norm": lambda: _norms(lambda x, shape, w, b: F.rms_norm(x, shape, w)),
    "group_norm": _grouped,
    "batch_norm": _batches,
    "cross_entropy": _losses,
    "var": _spreads,
}


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _calls_of(run: Any) -> list[tuple[Any, ...]]:
    """The calls of records with parts that a public call and its gradients come to."""
    calls: list[tuple[Any, ...]] = []
    with noting(lambda *call: calls.append(call)):
        y = run()
        (y.square().sum() + y.sum() * 0.3).backward()
    return [call for call in calls if call[0] == "call" and call[1].parts]


def _compared(name: str) -> set[str]:
    """Compares the parts of each record that calls come to; which these are."""
    torch.manual_seed(0)
    compared = set()
    for run in CALLS[name]():
        for _, op, tensors, params, result in _calls_of(run):
            with torch.no_grad():
                parts = op.parts(*tensors, *params)
            if parts is NotImplemented:
                continue
            compared.add(op.name)
            for own, made in zip(_several(result), _several(parts)):
                if own is None or made is None:  # nobody asked for it
                    continue
                assert made.shape == own.shape and made.dtype == own.dtype, op.name
                assert torch.allclose(made, own, 1e-4, 1e-5, equal_nan=True), (op.name, params)
    return compared


def test_parts_compute_what_their_records_do() -> None:
    """And no record that declares parts is left out."""
    declared = {op.name for op in OPERATORS.values() if op.parts and op.parts is not op.composed}
    assert declared == declared & set().union(*map(_compared, CALLS))
