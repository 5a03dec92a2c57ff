"""What torch.jit raises."""


class Error(Exception):
    """TorchScript's own exception: here, of values that have no TorchScript type."""


Error.__module__ = "tritorch.jit"
JITException = Error
