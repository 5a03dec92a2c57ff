"""liger-kernel on the GPU (simulated or real): its Triton kernels against the plain definitions."""

import torch
import torch.nn.functional as F
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from liger_kernel.transformers import (
    LigerCrossEntropyLoss,
    LigerFusedLinearCrossEntropyLoss,
    LigerJSD,
    LigerKLDIVLoss,
)

torch.manual_seed(0)


def new(*shape):
    return torch.randn(*shape, device="cuda", requires_grad=True)


def compare(ours, theirs, *inputs, tolerance=1e-4):
    """The values and the gradients of two functions; liger's backwards may write over inputs."""
    mine, plain = ([x.detach().clone().requires_grad_() for x in inputs] for _ in range(2))
    found, expected = ours(*mine), theirs(*plain)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    weight = torch.randn_like(expected)
    (found * weight).sum().backward()
    (expected * weight).sum().backward()
    for a, b in zip(mine, plain, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=10 * tolerance, atol=10 * tolerance)


x, w, b = new(4, 64), new(64), new(64)
compare(
    lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
    lambda x, w: F.rms_norm(x, (64,), w, 1e-6),
    x,
    w,
)
compare(
    lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, 1e-6),
    lambda x, w, b: F.layer_norm(x, (64,), w, b, 1e-6),
    x,
    w,
    b,
)
compare(LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, new(4, 64), new(4, 64))
compare(
    LigerGELUMulFunction.apply,
    lambda a, b: F.gelu(a, approximate="tanh") * b,
    new(4, 64),
    new(4, 64),
)
target = torch.randint(0, 32, (8,), device="cuda")
logits = new(8, 32)
plain = logits.detach().clone().requires_grad_()  # liger writes the gradient over the logits
loss = LigerCrossEntropyLoss()(logits, target)
(found,) = torch.autograd.grad(loss, logits)
expected = F.cross_entropy(plain, target)
torch.testing.assert_close(loss, expected)
torch.testing.assert_close(found, torch.autograd.grad(expected, plain)[0])
hidden, weight = new(8, 16), new(32, 16)
loss = LigerFusedLinearCrossEntropyLoss()(weight, hidden, target)
loss.backward()
torch.testing.assert_close(loss, F.cross_entropy(hidden @ weight.T, target), rtol=1e-4, atol=1e-4)
logp, q = new(4, 32).log_softmax(1), new(4, 32).softmax(1).detach()
torch.testing.assert_close(
    LigerKLDIVLoss(reduction="batchmean")(logp, q),
    F.kl_div(logp, q, reduction="batchmean"),
    rtol=1e-4,
    atol=1e-4,
)
assert LigerJSD()(logp, q.log()).isfinite()
q, k = new(1, 2, 8, 16), new(1, 2, 8, 16)
angles = torch.arange(8, device="cuda")[:, None] * torch.ones(16, device="cuda") * 0.1
turned, _ = LigerRopeFunction.apply(q, k, angles.cos()[None], angles.sin()[None])
half = torch.cat([-q[..., 8:], q[..., :8]], -1)
torch.testing.assert_close(turned, q * angles.cos() + half * angles.sin(), rtol=1e-4, atol=1e-4)
print("ok")
