"""Every operator, declared once, one family a file; importing this attaches Tensor's methods."""

from typing import Any

from tritorch.compat.legacy_operators import aten, compat, former, nested, vendors
from tritorch.core import arguments, late_bound, profiling
from tritorch.core.published import INTERNAL, PUBLIC
from tritorch.ops import collectives, linalg
from tritorch.ops.fft import fft, stft, windows
from tritorch.ops.index import embedding, gather, indexing, selecting, sorting
from tritorch.ops.interpret import sparse
from tritorch.ops.linalg import (
    byte_products,
    distance,
    grouped,
    linear,
    matmul,
    packed_linear,
    scaled,
    vectors,
)
from tritorch.ops.lists import foreach
from tritorch.ops.loss import ctc, loss
from tritorch.ops.nn import (
    attention,
    batch_statistics,
    conv,
    conv_norm,
    dropout,
    fake_quantize,
    folding,
    fractional_pool,
    grid,
    multihead,
    norm,
    pooling,
    quantize,
    recurrent,
    resample,
    upsample,
)
from tritorch.ops.pointwise import activation, arithmetic, comparison, pointwise, special
from tritorch.ops.random import random, sampling
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.reduce import differences, reduction, scan, segments, softmax, statistics
from tritorch.ops.shape import (
    copies,
    copying,
    factory,
    joining,
    memory,
    padding,
    parts,
    ranges,
    shape,
    views,
)

compat.publish()
foreach.publish()


def _names_of_arguments(operator: str, count: int) -> list[str]:
    from tritorch.ops.record.schema import names_of_arguments

    return names_of_arguments(operator, count)


def _forms_of_calls(operator: str, name: str, is_method: bool) -> list[str]:
    from tritorch.ops.record.schema import forms_of_calls

    return forms_of_calls(operator, name, is_method)


def _numbers(operator: str) -> dict[str, str]:
    from tritorch.ops.record.refusals import numbers

    return numbers(operator)


def _tensors(operator: str) -> frozenset[int]:
    from tritorch.ops.record.refusals import tensors

    return tensors(operator)


def _refusal(*call: Any) -> str | None:
    from tritorch.ops.record.refusals import refusal

    return refusal(*call)


def _answered_number(x: object) -> object:
    from tritorch.ops.interpret import dispatch

    return dispatch.plainly("_local_scalar_dense", x)


def _answered_question(question: str, x: Any, args: tuple[object, ...]) -> object:
    from tritorch.ops.interpret import dispatch

    return dispatch.answered_question(question, x, args)


def _profiled_name(gate: object) -> str | None:
    from tritorch.ops.record import profiled

    return profiled.name_of(gate)


def _prepare_profile() -> None:
    from tritorch.ops.record import profiled

    profiled.prepare()


def _profiled_cost(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[int, int] | None:
    from tritorch.ops.record import profiled

    return profiled.cost_of(name, args, kwargs)


def _profiled_inputs(
    name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[str, list[Any]] | None:
    from tritorch.ops.record import profiled

    return profiled.inputs_of(name, args, kwargs)


def _profiled_record(op: object) -> str | None:
    from tritorch.ops.record import profiled

    return profiled.name_of_record(op)


def _profiled_fills() -> dict[str, str]:
    from tritorch.ops.record import profiled

    return profiled.filled_by()


profiling.events.set_name_handler(_profiled_name)
profiling.events.set_record_handler(_profiled_record)
profiling.filled_by = _profiled_fills
profiling.cost_of = _profiled_cost
profiling.inputs_of = _profiled_inputs
profiling.prepare = _prepare_profile
late_bound.answered_number, late_bound.answered_question = _answered_number, _answered_question
arguments.declared_names = _names_of_arguments
arguments.declared_forms = _forms_of_calls
arguments.declared_numbers = _numbers
arguments.declared_tensors = _tensors
arguments.refusal = _refusal
