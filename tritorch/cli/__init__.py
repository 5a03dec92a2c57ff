"""The commands of `python -m tritorch`."""
