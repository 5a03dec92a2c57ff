"""torch._refs: PyTorch's reference functions, which are the operators themselves here.

PyTorch writes each operator a second time in Python, to trace and to test its kernels.  Here an
operator's Python definition is its record, so that `_refs.sum` is `sum`.
"""

from tritorch.compat.torch_private._refs._by_name import getter

__getattr__ = getter("torch._refs", "tritorch")
