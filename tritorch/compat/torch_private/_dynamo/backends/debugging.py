"""Backends that run a graph's calls as they are, or as ATen's operators, to find faults."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._dynamo.backends.common import aot_autograd
from tritorch.compat.torch_private._dynamo.backends.registry import (
    register_debug_backend as register_backend,
)
from tritorch.compat.torch_private._functorch.aot_autograd import nop
from tritorch.compilation.tools.explain import ExplainOutput as ExplainOutput
from tritorch.core.gates import GATES
from tritorch.core.tensor import Tensor
from tritorch.fx.experimental.proxy_tensor import make_fx
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Interpreter

log = logging.getLogger("torch._dynamo.backends.debugging")


def _unused(backend: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        log.warning("%s backend ignoring extra kwargs %s", backend, kwargs)


@register_backend
def eager(gm: GraphModule, fake_tensor_inputs: list[Tensor], **kwargs: Any) -> Callable[..., Any]:
    """Runs the graph's calls, one after the other."""
    _unused("eager", kwargs)
    return gm.forward


@register_backend
def eager_noexcept(
    gm: GraphModule, fake_tensor_inputs: list[Tensor], **kwargs: Any
) -> Callable[..., Any]:
    """Runs the graph's calls; that one fails is the compiler's fault."""
    _unused("eager_noexcept", kwargs)

    def inner(*args: Any) -> Any:
        from tritorch.compat.torch_private._dynamo.exc import TorchDynamoException

        try:
            return gm(*args)
        except Exception as error:
            raise TorchDynamoException(
                "Unexpected exception when running generated GraphModule"
            ) from error

    return inner


@register_backend
def pre_dispatch_eager(
    gm: GraphModule, fake_tensor_inputs: list[Tensor], **kwargs: Any
) -> GraphModule:
    """Runs the graph's ATen operators, and prints them."""
    _unused("pre_dispatch_eager", kwargs)
    made = make_fx(Interpreter(gm).run, tracing_mode="fake")(*fake_tensor_inputs)
    made.print_readable()
    return made


@register_backend(name="ts")
def torchscript(gm: GraphModule, fake_tensor_inputs: list[Tensor]) -> Any:
    """Runs the graph through torch.jit.script."""
    from tritorch import jit

    return jit.script(gm)


def boxed_nop(fx_g: GraphModule, example_inputs: list[Tensor]) -> Callable[..., Any]:
    """Runs a graph, of a list of inputs that it empties."""
    return nop(fx_g, example_inputs)


def get_nop_func() -> Callable[..., Any]:
    """What runs a graph as it is."""
    return boxed_nop


def aot_eager(
    gm: GraphModule, fake_tensor_inputs: list[Tensor], fw_compiler: Any = None,
    bw_compiler: Any = None, **kwargs: Any,
) -> Callable[..., Any]:  # fmt: skip
    """Runs ATen's operators, of the forward pass and of the backward pass."""
    made = aot_autograd(fw_compiler=fw_compiler or boxed_nop, bw_compiler=bw_compiler or boxed_nop)
    return made(gm, fake_tensor_inputs, **kwargs)


def aot_eager_decomp_partition(
    gm: GraphModule, fake_tensor_inputs: list[Tensor], **kwargs: Any
) -> Callable[..., Any]:
    """Runs ATen's operators, those that the compiler decomposes in parts."""
    _unused("aot_eager_decomp_partition", kwargs)
    from tritorch.compat.torch_private._inductor.decomposition import select_decomp_table

    made = aot_autograd(
        fw_compiler=boxed_nop, bw_compiler=boxed_nop, decompositions=select_decomp_table
    )
    return made(gm, fake_tensor_inputs)


for _backend in (aot_eager, aot_eager_decomp_partition):
    register_backend(_backend)
aot_eager_default_partitioner = aot_autograd(fw_compiler=boxed_nop)
register_backend(aot_eager_default_partitioner, name="aot_eager_default_partitioner")


# ---- with faults, for tests of what finds them ---------------------------------------------------


class ReluCompileError(Exception):
    """A graph has a relu."""


def _is_relu(target: Any) -> bool:
    return getattr(target, "__name__", target) == "relu"


@register_backend
def relu_compile_error_TESTING_ONLY(gm: GraphModule, example_inputs: list[Tensor]) -> GraphModule:
    """Cannot compile a relu."""
    if any(_is_relu(node.target) for node in gm.graph.nodes):
        raise ReluCompileError
    return gm


@register_backend
def relu_runtime_error_TESTING_ONLY(gm: GraphModule, example_inputs: list[Tensor]) -> GraphModule:
    """Cannot run a relu."""
    from tritorch.compat.settings import _assert

    for node in gm.graph.nodes:
        if _is_relu(node.target):
            node.op, node.target, node.args = "call_function", _assert, (False, "ReluRuntimeError")
    gm.recompile()
    return gm


@register_backend
def relu_accuracy_error_TESTING_ONLY(gm: GraphModule, example_inputs: list[Tensor]) -> GraphModule:
    """Adds one where a relu is."""
    for node in gm.graph.nodes:
        if _is_relu(node.target):
            node.op, node.target, node.args = (
                "call_function",
                GATES["tritorch"]["add"],
                (node.args[0], 1),
            )
    gm.recompile()
    return gm
