"""torch._inductor: the settings of PyTorch's compiler of kernels, which programs read and set."""
