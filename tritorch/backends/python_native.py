"""Kernels of PyTorch's that are written in Python's sublanguages: there are none to switch."""

available_dsls: list[str] = []
all_dsls: list[str] = []
