"""Names of PyTorch's exporter that classes of tensors are declared with."""
