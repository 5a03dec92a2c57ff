"""Nested data, taken apart and put together again: what `torch.utils._pytree` is made of.

`nodes.py` has the types that are taken apart, `spec.py` how something was put together, `walk.py`
the functions that go through it.
"""
