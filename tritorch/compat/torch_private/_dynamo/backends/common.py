"""What backends are made of: compilers of ATen's operators, as backends of graphs of calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._functorch.aot_autograd import aot_module_simplified
from tritorch.compilation.follow.counters import counters
from tritorch.core.tensor import Tensor

log = logging.getLogger("torch._dynamo.backends.common")


class AotAutograd:
    """A backend that lowers a graph to ATen's operators, forward and backward, for compilers."""

    def __init__(self, **kwargs: Any) -> None:
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Callable[..., Any]:
        if kwargs:
            log.warning("aot_autograd-based backend ignoring extra kwargs %s", kwargs)
        options = dict(self.kwargs)
        if callable(options.get("decompositions")):
            options["decompositions"] = options["decompositions"]()
        counters["aot_autograd"]["total"] += 1
        try:
            made = aot_module_simplified(gm, example_inputs, **options)
        except Exception:
            counters["aot_autograd"]["not_ok"] += 1
            raise
        counters["aot_autograd"]["ok"] += 1
        return made


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """A backend of compilers: `aot_autograd(fw_compiler=..., bw_compiler=...)`.

    Each gets a GraphModule of ATen's operators and example inputs; `make_boxed_func` marks what
    they give as a function of one list.  decompositions: functions that stand for operators."""
    return AotAutograd(**kwargs)


def fake_tensor_unsupported(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The backend itself: example inputs are real tensors here."""
    return fn


def device_from_inputs(example_inputs: Any) -> Any:
    """The device of the first tensor among inputs."""
    return next((x.device for x in example_inputs if isinstance(x, Tensor)), None)


def dtype_from_inputs(example_inputs: Any) -> Any:
    """The dtype of the first tensor among inputs."""
    return next((x.dtype for x in example_inputs if isinstance(x, Tensor)), None)
