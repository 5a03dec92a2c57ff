"""Functions of one element, which kernels are composed of."""
