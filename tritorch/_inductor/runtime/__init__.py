"""What packages ask of the files that PyTorch's compiled kernels use at run time."""
