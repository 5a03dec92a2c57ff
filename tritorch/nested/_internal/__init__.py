"""What torch.nested is made of, under PyTorch's names."""
