"""Logs of PyTorch's compiler, which is not here: nobody writes them."""
