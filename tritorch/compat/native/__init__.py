"""Python's answers for names of `torch._C`, PyTorch's extension."""
