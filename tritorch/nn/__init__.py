"""Neural networks, as in torch.nn."""

from typing import Any as _Any

from tritorch.nn import (
    functional,
    init,
    utils,
)
from tritorch.nn.modules import *  # noqa: F403
from tritorch.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

from tritorch.nn import attention, grad, parallel  # isort: skip
from tritorch.nn.parallel import DataParallel  # isort: skip


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
