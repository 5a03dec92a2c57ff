"""Modules that hold a layer and what follows it, and compute them together where they can.

While training on the GPU a convolution's kernels take its norm's statistics, and norm and relu are
one pass over memory (`nn.utils.fusion`).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from tritorch import nn
from tritorch.core.tensor import Tensor
from tritorch.nn.utils.fusion import bn_act, conv_bn_act

if TYPE_CHECKING:  # what is made at run time
    from tritorch.nn.intrinsic._made import *  # noqa: F403


_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class _FusedModule(nn.Sequential):
    _kinds: ClassVar[dict[str, type]] = {}

    def __init__(self, *modules: Any, **named: Any) -> None:
        names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                 for name in self._kinds]  # fmt: skip
        given = inspect.Signature(names).bind(*modules, **named).args
        if any(type(module) is not kind for module, kind in zip(given, self._kinds.values())):
            titles = [type(module).__name__ for module in given]
            joined = ", ".join(titles[:-1]) + ("," if len(titles) > 2 else "")
            raise AssertionError(f"Incorrect types for input modules: {joined} and {titles[-1]}")
        super().__init__(*given)


class _ConvBn(_FusedModule):
    def forward(self, input: Tensor) -> Tensor:
        """The norm of the convolution."""
        return conv_bn_act(input, self[0], self[1], relu=False)


class _ConvBnReLU(_FusedModule):
    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm of the convolution."""
        return conv_bn_act(input, self[0], self[1])


class _BNReLU(_FusedModule):
    def forward(self, input: Tensor) -> Tensor:
        """The relu of the norm."""
        return bn_act(input, self[0])


def _declare(name: str, base: type, doc: str, **kinds: type) -> None:
    contents = {"_kinds": kinds, "__doc__": doc, "__module__": __name__}
    globals()[name] = type(name, (base,), contents)
    __all__.append(name)


__all__: list[str] = []
for _n, _conv, _norm in zip((1, 2, 3), _CONVS, _NORMS):
    _declare(f"ConvBn{_n}d", _ConvBn, "A convolution and a batch norm.", conv=_conv, bn=_norm)
    _declare(f"ConvBnReLU{_n}d", _ConvBnReLU, "A convolution, a batch norm and relu.",
             conv=_conv, bn=_norm, relu=nn.ReLU)  # fmt: skip
    _declare(f"ConvReLU{_n}d", _FusedModule, "A convolution and relu.", conv=_conv, relu=nn.ReLU)
    if _n > 1:
        _declare(f"BNReLU{_n}d", _BNReLU, "A batch norm and relu.", batch_norm=_norm, relu=nn.ReLU)
_declare("LinearReLU", _FusedModule, "A linear map and relu.", linear=nn.Linear, relu=nn.ReLU)
_declare("LinearBn1d", _FusedModule, "A linear map and a batch norm.", linear=nn.Linear,
         bn=nn.BatchNorm1d)  # fmt: skip
