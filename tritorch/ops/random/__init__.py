"""Random numbers, declared as operators."""
