"""Times of functions, by the package's own timer (`tritorch.utils.benchmark.do_bench`)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.utils import _pytree as pytree
from tritorch.utils.benchmark import do_bench

MILLISECONDS_PER_SECOND = 1000


class Benchmarker:
    """Times functions on the device of their arguments; results are milliseconds."""

    def benchmark(
        self, fn: Callable[..., Any], fn_args: tuple[Any, ...] = (),
        fn_kwargs: dict[str, Any] | None = None, device: Any = None, **kwargs: Any,
    ) -> float:  # fmt: skip
        """Times a call on the device that it names, or that its arguments lie on."""
        options = fn_kwargs or {}
        if device is None:
            tensors = [x for x in pytree.tree_leaves((fn_args, options)) if isinstance(x, Tensor)]
            kinds = {x.device.type for x in tensors}
            if len(kinds) != 1:
                raise ValueError(
                    "Can't safely infer the device type of fn with multiple device types in "
                    "fn_args and fn_kwargs"
                    if kinds
                    else "Can't infer the device type of fn without tensors in fn_args, fn_kwargs"
                )
            (kind,) = kinds
        else:
            kind = getattr(device, "type", None) or str(device).partition(":")[0]
        call = lambda: fn(*fn_args, **options)
        return self.benchmark_cpu(call, **kwargs) if kind == "cpu" else self.benchmark_gpu(
            call, **kwargs
        )  # fmt: skip

    def benchmark_cpu(
        self, _callable: Callable[[], Any], warmup: int = 20, rep: int = 100
    ) -> float:
        """The median time of a call by the wall clock, over rep milliseconds after warmup."""

        def run(milliseconds: float) -> list[float]:
            times: list[float] = []
            end = time.perf_counter() + milliseconds / MILLISECONDS_PER_SECOND
            while not times or time.perf_counter() < end:
                before = time.perf_counter()
                _callable()
                times.append((time.perf_counter() - before) * MILLISECONDS_PER_SECOND)
            return times

        run(warmup)
        return statistics.median(run(rep))

    def benchmark_gpu(
        self, _callable: Callable[[], Any], warmup: int = 25, rep: int = 100, **kwargs: Any
    ) -> Any:
        """The median time of a call by events, with a cold cache."""
        if "return_mode" not in kwargs and "quantiles" not in kwargs:
            kwargs["return_mode"] = "median"
        return do_bench(_callable, warmup, rep, **kwargs)


class TritonBenchmarker(Benchmarker):
    """The same, under the name that PyTorch has for Triton's timer."""


class InductorBenchmarker(TritonBenchmarker):
    """The same, under the name that PyTorch has for its compiler's timer."""


benchmarker = InductorBenchmarker()
