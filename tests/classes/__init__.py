"""PyTorch's classes, recorded: `tools/record/classes.py` writes recorded.json."""
