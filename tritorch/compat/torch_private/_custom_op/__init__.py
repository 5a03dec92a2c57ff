"""Operators by PyTorch's first way of defining them (now `torch.library.custom_op`)."""
