"""cut-cross-entropy: its definition by torch operators, and its kernels on the GPU."""

import torch
import torch.nn.functional as F
from cut_cross_entropy import linear_cross_entropy

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
e = torch.randn(8, 32, device=device, dtype=torch.bfloat16, requires_grad=True)
c = torch.randn(16, 32, device=device, dtype=torch.bfloat16, requires_grad=True)
target = torch.randint(0, 16, (8,), device=device)
plain = F.cross_entropy(e.float() @ c.float().T, target)
for implementation in ("torch_compile", "cce") if device == "cuda" else ("torch_compile",):
    loss = linear_cross_entropy(e, c, target, impl=implementation)
    torch.testing.assert_close(loss.float(), plain, rtol=2e-2, atol=2e-2)
    loss.backward()
    assert e.grad.isfinite().all() and c.grad.isfinite().all()
    e.grad = c.grad = None
print("ok")
