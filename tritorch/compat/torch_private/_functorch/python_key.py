"""make_fx, under a former name."""

from tritorch.fx.experimental.proxy_tensor import make_fx

__all__ = ["make_fx"]
