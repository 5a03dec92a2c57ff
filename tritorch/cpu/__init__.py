"""The CPU backend: operators on NumPy arrays (see docs/backends.md)."""
