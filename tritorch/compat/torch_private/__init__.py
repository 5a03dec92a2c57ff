"""Modules at PyTorch's private paths: `tritorch._dynamo` is here (`compat/moved.py`)."""
