"""Tools around tensors, as in torch.utils."""
