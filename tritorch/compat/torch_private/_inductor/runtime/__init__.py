"""Names that packages import from the files that PyTorch's compiled kernels use at run time."""
