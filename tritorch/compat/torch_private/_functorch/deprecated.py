"""What `import functorch` gives: transforms that warn of their present names."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tritorch import func
from tritorch.compat.torch_private._functorch import make_functional as _modules
from tritorch.compat.torch_private._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
)
from tritorch.core.naming import package

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def _former(function: Callable[..., Any], present: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def warned(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{function.__name__}` is deprecated as of PyTorch 2.0 and will be deleted "
            f"in a future version of PyTorch >= 2.3. Please use `{present}` instead; see the "
            "PyTorch 2.0 release notes and/or the `torch.func` migration guide for more details "
            "https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return warned


vmap = _former(func.vmap, "torch.vmap")
grad = _former(func.grad, "torch.func.grad")
grad_and_value = _former(func.grad_and_value, "torch.func.grad_and_value")
vjp = _former(func.vjp, "torch.func.vjp")
jvp = _former(func.jvp, "torch.func.jvp")
jacrev = _former(func.jacrev, "torch.func.jacrev")
jacfwd = _former(func.jacfwd, "torch.func.jacfwd")
hessian = _former(func.hessian, "torch.func.hessian")
functionalize = _former(func.functionalize, "torch.func.functionalize")
make_functional = _former(_modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _former(
    _modules.make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = _former(
    _modules.combine_state_for_ensemble, "torch.func.stack_module_state"
)


def __getattr__(name: str) -> Any:
    if name == "make_fx":  # graphs are much to import for who wants transforms
        from tritorch.fx.experimental.proxy_tensor import make_fx

        return make_fx
    if name == "__version__":
        return package().__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
