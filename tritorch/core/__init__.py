"""What a tensor is made of."""
