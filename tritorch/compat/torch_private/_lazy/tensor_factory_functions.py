"""Functions that make tensors of numbers, sizes and files."""

from tritorch.core.gates import GATES

_NAMES = """
    arange bartlett_window blackman_window empty_strided eye full from_file hann_window
    hamming_window kaiser_window linspace logspace ones scalar_tensor rand randint randn randperm
    range zeros tril_indices triu_indices tensor
"""
tensor_factory_functions = tuple(GATES["tritorch"][name] for name in _NAMES.split())
