"""opt_einsum: paths contracted by torch, and einsum's own use of it."""

import numpy as np
import opt_einsum as oe
import torch

torch.manual_seed(0)
a, b, c = torch.randn(4, 5), torch.randn(5, 6), torch.randn(6, 3)
expected = a @ b @ c
torch.testing.assert_close(oe.contract("ij,jk,kl->il", a, b, c), expected)
torch.testing.assert_close(torch.einsum("ij,jk,kl->il", a, b, c), expected)
assert torch.backends.opt_einsum.is_available()
expression = oe.contract_expression("ij,jk->ik", (4, 5), (5, 6))
torch.testing.assert_close(expression(a, b), a @ b)
constant = oe.contract_expression("ij,jk->ik", a, (5, 6), constants=[0])
torch.testing.assert_close(constant(b, backend="torch"), a @ b)
with torch.backends.opt_einsum.flags(strategy="optimal"):
    torch.testing.assert_close(torch.einsum("ij,jk,kl->il", a, b, c), expected)
assert isinstance(oe.contract("ij,jk->ik", a.numpy(), b.numpy()), np.ndarray)
print("ok")
