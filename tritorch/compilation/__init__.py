"""Following compiled functions: what `torch.compile` makes of a program.  See regions.py."""
