"""The programs that ship, as tritorch.examples: each is run as a script (see README.md)."""
