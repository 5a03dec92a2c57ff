"""PyTorch's classes, recorded: `tools/record_classes.py` writes recorded.json."""
