"""Backends in PyTorch's terms, `backend(gm, example_inputs) -> callable`, for segments."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.compilation.follow.calls import Segment
from tritorch.compilation.follow.counters import timed
from tritorch.compilation.tools import logs
from tritorch.compilation.tools.graphs import graph_module
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module

Backend = Callable[..., Any]
log = logging.getLogger("torch._dynamo.output_graph")
_numbers = itertools.count()


class Adapter:
    """A backend as a follower asks for it: of a segment, it makes a function of lists."""

    def __init__(
        self, backend: Backend, kwargs: dict[str, Any], owner: Module | None = None
    ) -> None:
        self.backend, self.kwargs, self.owner = backend, kwargs, owner

    @property
    def __name__(self) -> str:
        return getattr(self.backend, "__name__", str(self.backend))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Adapter)
            and (self.backend, self.kwargs) == (other.backend, other.kwargs)
            and self.owner is other.owner
        )

    __hash__ = None  # type: ignore[assignment]

    def __call__(
        self, segment: Segment, examples: list[Tensor]
    ) -> Callable[[list[Tensor]], list[Tensor]]:
        made = graph_module(segment, input_names(segment, examples, self.owner))
        name = f"__compiled_fn_{next(_numbers)}"
        logs.traced(name, made)
        run = self._compiled(made, examples)
        if getattr(run, "_boxed_call", False):
            return lambda given: as_list(run(list(given)))
        return lambda given: as_list(run(*given))

    def _compiled(self, module: Any, examples: list[Tensor]) -> Callable[..., Any]:
        from tritorch.compat.torch_private._dynamo import config, exc

        try:
            with timed("OutputGraph.call_user_compiler"):
                run = self.backend(module, examples, **self.kwargs)
        except exc.SkipFrame:
            return module.forward
        except Exception as error:
            if config.suppress_errors:
                log.warning("%s failed, its graph runs as it is", self.__name__, exc_info=True)
                return module.forward
            raise exc.BackendCompilerFailed(self.backend, error).with_traceback(None) from error
        if not callable(run):
            raise TypeError(f"compiler_fn did not return callable: {type(run)}")
        return run

    def reset(self) -> None:
        """Tells the backend that what it keeps is wanted no more."""
        forget = getattr(self.backend, "reset", None)
        if callable(forget):
            forget()


def as_list(results: Any) -> list[Tensor]:
    """The results of a compiled graph, which some give as one tensor."""
    return [results] if isinstance(results, Tensor) else list(results)


def input_names(
    segment: Segment, examples: Iterable[Tensor], owner: Module | None
) -> dict[int, str]:
    """The names of a graph's inputs: a module's parameters and buffers, as PyTorch calls them."""
    if owner is None:
        return {}
    known = {id(x): ("parameters", name) for name, x in owner.named_parameters()}
    known.update({id(x): ("buffers", name) for name, x in owner.named_buffers()})
    names = {}
    for index, example in zip(segment.inputs, examples, strict=True):
        if id(example) in known:
            kind, name = known[id(example)]
            *path, leaf = name.split(".")
            way = "".join(f"modules_{each}_" for each in path)
            names[index] = f"l_self_{way}{kind}_{leaf}_"
    return names
