"""make_fx, under a former name."""

from tritorch.fx.experimental.proxy_tensor import PythonKeyTracer, dispatch_trace, make_fx

__all__ = ["PythonKeyTracer", "dispatch_trace", "make_fx"]
