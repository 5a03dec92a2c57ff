"""The GPU backend: launches of Triton kernels on `_C.Array`s (see docs/backends.md)."""
