"""Neural networks, as in torch.nn."""

import sys as _sys
from typing import TYPE_CHECKING, Any as _Any

from tritorch.compat import names as _names
from tritorch.nn import (
    functional as functional,
    init as init,
    utils as utils,
)
from tritorch.nn.modules import *  # noqa: F403
from tritorch.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

from tritorch.nn import attention, grad as grad, parallel as parallel  # isort: skip
from tritorch.nn.parallel import DataParallel as DataParallel  # isort: skip

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.nn import common_types as common_types, modules as modules, parameter as parameter


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """device, dtype and memory_format of keyword arguments; anything else is refused."""
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    if not kwargs.keys() <= names | {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - names - {'factory_kwargs'}}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for name in names & kwargs.keys():
        if name in out:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        out[name] = kwargs[name]
    return out


if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name in ("intrinsic", "qat", "quantizable", "quantized"):  # former paths of ao.nn
            import importlib

            return importlib.import_module(f"tritorch.nn.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_names.adopt(_sys.modules[__name__])
