"""What tests of the compiler share: backends that count and keep graphs."""

from __future__ import annotations

import unittest.mock
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.compat.torch_private._dynamo.backends.registry import lookup_backend
from tritorch.compat.torch_private._dynamo.utils import same
from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.shape.factory import zeros
from tritorch.random import manual_seed

__all__ = [
    "AotEagerAndRecordGraphs", "CompileCounter", "CompileCounterWithBackend",
    "EagerAndRecordGraphs", "make_test_cls_with_patches", "rand_strided",
    "remove_optimized_module_prefix", "reset_rng_state", "same",
]  # fmt: skip


def _calls(gm: Any) -> int:
    return sum("call" in node.op for node in gm.graph.nodes)


class CompileCounter:
    """A backend that runs graphs as they are, and counts them and their calls."""

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: Any, example_inputs: list[Tensor]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += _calls(gm)
        return gm.forward

    def clear(self) -> None:
        """Begins at zero."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """A backend that counts and keeps graphs, for another that compiles them."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        super().__init__()

    def __call__(self, gm: Any, example_inputs: list[Tensor]) -> Callable[..., Any]:
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Begins at zero, with no graph."""
        super().clear()
        self.graphs: list[Any] = []


class EagerAndRecordGraphs:
    """A backend that runs graphs as they are, and keeps them."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: list[Tensor]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that runs ATen's operators, and keeps the graphs of both passes."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.fw_graphs: list[Any] = []
        self.bw_graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: list[Tensor]) -> Callable[..., Any]:
        def keep(graphs: list[Any]) -> Callable[..., Any]:
            def compiler(made: Any, inputs: list[Any]) -> Callable[..., Any]:
                graphs.append(made)
                return made.forward

            return compiler

        self.graphs.append(gm)
        backend = lookup_backend("aot_eager")
        return backend(
            gm, example_inputs, fw_compiler=keep(self.fw_graphs), bw_compiler=keep(self.bw_graphs)
        )


def reset_rng_state() -> None:
    """Random numbers begin as they do in each test."""
    manual_seed(1337)


def remove_optimized_module_prefix(name: str) -> str:
    """The name of a parameter in the module that was compiled."""
    return name.removeprefix("_orig_mod.")


def rand_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: Any = None,
    device: Any = "cpu",
    extra_size: int = 0,
) -> Tensor:
    """Random numbers in memory with these strides, and `extra_size` elements behind."""
    reach = extra_size
    if all(size):
        reach += sum((n - 1) * step for n, step in zip(size, stride)) + 1
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        memory = published.public.randn(reach, dtype=dtype, device=device)
    else:
        memory = zeros(reach, dtype=dtype, device=device)
    return memory.as_strided(tuple(size), tuple(stride))


def make_test_cls_with_patches(
    cls: Any,
    cls_prefix: str,
    fn_suffix: str,
    *patches: tuple[Any, str, Any],
    xfail_prop: str | None = None,
    decorator: Callable[[Any], Any] = lambda function: function,
) -> Any:
    """A class of tests with those of another, run with other settings: (module, name, value)."""
    contents: dict[str, Any] = {"__qualname__": f"{cls_prefix}{cls.__name__}"}
    made = type(f"{cls_prefix}{cls.__name__}", cls.__bases__, contents)
    for name in dir(cls):
        value = getattr(cls, name)
        if not name.startswith("test_"):
            if name not in vars(made) and not hasattr(made, name):
                setattr(made, name, value)
            continue
        own = f"{name}{fn_suffix}"
        if not callable(value):
            setattr(made, own, value)
            continue
        if xfail_prop is not None and hasattr(value, xfail_prop):
            value = unittest.expectedFailure(value)
        for module, setting, to in patches:
            value = unittest.mock.patch.object(module, setting, to)(value)
        value.__name__ = own
        setattr(made, own, decorator(value))
    return made
