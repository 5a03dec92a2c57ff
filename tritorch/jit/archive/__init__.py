"""Archives of TorchScript: modules as TorchScript source, a pickle of their attributes, tensors."""
