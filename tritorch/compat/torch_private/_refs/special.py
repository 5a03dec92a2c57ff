"""torch._refs.special: the functions of torch.special."""

from tritorch.compat.torch_private._refs._by_name import getter

__getattr__ = getter("torch._refs.special", "tritorch.special")
