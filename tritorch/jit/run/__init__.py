"""Execution of TorchScript: graphs become closures over frames of values, `builtins` are what the
operators compute that are none of tensors, and `values` is the border to Python."""
