"""Triton without torch: the driver it uses, our own launches, and kernels on the simulated device.

Nothing here imports Triton until a kernel is needed or the user imports it.
"""
