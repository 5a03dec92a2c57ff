"""What is counted and timed of compilations, and copies of inputs."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.compilation.follow.counters import counters as counters, seconds, timed, times
from tritorch.core import dtype as dtypes, published
from tritorch.core.tensor import Tensor
from tritorch.ops.loss.loss import cosine_similarity
from tritorch.ops.pointwise.comparison import allclose
from tritorch.ops.shape.factory import as_tensor, empty_strided

__all__ = [
    "clone_input", "clone_inputs", "compile_times", "counters", "dynamo_timed", "rmse", "same",
]  # fmt: skip

log = logging.getLogger("torch._dynamo.utils")
compilation_time_metrics = seconds


def dynamo_timed(key: str, **options: Any) -> contextlib.AbstractContextManager[None]:
    """Notes how long the block takes, for `compile_times`; options change nothing."""
    return timed(key)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Inside, functions are compiled for as many kinds of arguments as they get."""
    from tritorch.compat.torch_private._dynamo import config

    with config.patch(recompile_limit=sys.maxsize, accumulated_recompile_limit=sys.maxsize):
        yield


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """The seconds that compilations took: as a table, or ("csv") as names and values.

    aggregate: sums instead of every time."""
    if repr == "str":
        return times(aggregate)
    if repr != "csv":
        return None
    values = [[sum(each)] if aggregate else each for each in seconds.values()]
    return list(seconds), [", ".join(f"{t:.6f}" for t in each) for each in values]


def clone_input(x: Tensor, *, dtype: dtypes.dtype | None = None) -> Tensor:
    """A copy with the same strides, which wants gradients if the tensor does."""
    y = published.public.empty_like(x, dtype=dtype or x.dtype)
    if tuple(y.stride()) != tuple(x.stride()):
        y = empty_strided(tuple(x.shape), tuple(x.stride()), dtype=y.dtype, device=x.device)
    y.copy_(x.detach())
    return y.requires_grad_(x.requires_grad)


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of the tensors in a list, or in the lists of a dict."""
    if isinstance(example_inputs, dict):
        return {key: clone_inputs(value) for key, value in example_inputs.items()}
    return [clone_input(x) if isinstance(x, Tensor) else x for x in example_inputs]


def rmse(ref: Tensor, res: Tensor) -> Tensor:
    """The root of the mean squared difference."""
    return (ref - res).square().mean().sqrt()


def same(
    ref: Any, res: Any, fp64_ref: Any = None, cos_similarity: bool = False, tol: float = 1e-4,
    equal_nan: bool = False, exact_dtype: bool = True, relax_numpy_equality: bool = False,
    ignore_non_fp: bool = False, log_error: Callable[..., None] = log.error, **options: Any,
) -> bool:  # fmt: skip
    """Whether results are the same but for rounding, in nested containers too.

    fp64_ref: the same in double precision; what is about as far from it as ref is passes.
    cos_similarity: of the directions of tensors alone.  ignore_non_fp: tensors of integers and
    booleans pass.  relax_numpy_equality: numbers that are no tensors may differ as tensors may."""
    rest: Any = (cos_similarity, tol, equal_nan, exact_dtype, relax_numpy_equality, ignore_non_fp)
    inside: Any = (*rest, log_error)
    exact = ref if fp64_ref is None else fp64_ref
    if isinstance(ref, dict):
        if not isinstance(res, dict) or ref.keys() != res.keys():
            raise AssertionError(f"keys mismatch {set(ref)} == {set(res)}")
        for key in ref:
            if not same(ref[key], res[key], exact[key], *inside):
                log_error("Accuracy failed for key name %s", key)
                return False
        return True
    if isinstance(ref, (list, tuple)):
        if not isinstance(res, (list, tuple)):
            raise AssertionError(f"type mismatch {type(ref)} {type(res)}")
        if len(ref) != len(res):
            log_error("Length mismatch")
            return False
        return all(same(*three, *inside) for three in zip(ref, res, exact, strict=True))
    numbers = isinstance(ref, float) or (relax_numpy_equality and not isinstance(ref, Tensor))
    if numbers:
        ref, res, exact = (as_tensor(x) for x in (ref, res, exact))
    if not isinstance(ref, Tensor):
        return bool(type(ref) is type(res) and ref == res)
    return _same_tensors(ref, res, exact, *inside)


def _same_tensors(
    ref: Tensor, res: Tensor, exact: Tensor, cos_similarity: bool, tol: float, equal_nan: bool,
    exact_dtype: bool, relaxed: bool, ignore_non_fp: bool, log_error: Callable[..., None],
) -> bool:  # fmt: skip
    if exact_dtype and ref.dtype != res.dtype:
        log_error("dtype mismatch %s, %s", ref.dtype, res.dtype)
        return False
    if ref.shape != res.shape:
        log_error("shape mismatch %s, %s", ref.shape, res.shape)
        return False
    floating = ref.dtype.is_floating_point or ref.dtype.is_complex
    if ignore_non_fp and not floating:
        return True
    ref, res = ref.detach(), res.detach()
    ref = ref if exact_dtype else ref.to(res.dtype)
    if cos_similarity:
        ref, res, equal_nan = ref.flatten().float(), res.flatten().float(), True
    if allclose(ref, res, atol=tol, rtol=tol, equal_nan=equal_nan):
        return True
    if cos_similarity:
        return bool(cosine_similarity(ref, res, dim=0, eps=1e-6).item() >= 0.99)
    if exact.dtype.itemsize >= 8 and exact.dtype.is_floating_point:
        own, other = rmse(exact, ref).item(), rmse(exact, res).item()
        times_as_far = 3.0 if res.dtype.itemsize == 2 else 2.0
        if math.isnan(own) or other <= times_as_far * own + tol / 10.0:
            return True
    log_error("Accuracy failed: allclose not within tol=%s", tol)
    return False
