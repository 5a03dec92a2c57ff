"""The CPU's backend: operators on NumPy arrays (docs/backends.md)."""
