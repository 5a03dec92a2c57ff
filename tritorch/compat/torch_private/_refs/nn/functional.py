"""torch._refs.nn.functional: the functions of torch.nn.functional."""

from tritorch.compat.torch_private._refs._by_name import getter

__getattr__ = getter("torch._refs.nn.functional", "tritorch.nn.functional")
