"""torch._refs.linalg: the functions of torch.linalg."""

from tritorch.compat.torch_private._refs._by_name import getter

__getattr__ = getter("torch._refs.linalg", "tritorch.linalg")
