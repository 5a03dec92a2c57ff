"""Modules below `torch._C`: Python's halves of what PyTorch has in its extension."""
