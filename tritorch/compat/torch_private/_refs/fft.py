"""torch._refs.fft: the functions of torch.fft."""

from tritorch.compat.torch_private._refs._by_name import getter

__getattr__ = getter("torch._refs.fft", "tritorch.fft")
