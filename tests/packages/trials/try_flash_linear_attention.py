"""flash-linear-attention on the GPU (simulated or real): its kernels against plain recurrences."""

import torch
from fla.modules import RMSNorm
from fla.ops.gla import fused_recurrent_gla
from fla.ops.linear_attn import fused_recurrent_linear_attn
from fla.ops.retention import fused_recurrent_retention

torch.manual_seed(0)
B, T, H, D = 1, 16, 2, 16
q, k, v = (torch.randn(B, T, H, D, device="cuda") * 0.3 for _ in range(3))


def recurrence(q, k, v, decay, scale):
    """o_t = q_t S_t, S_t = decay_t S_(t-1) + k_t v_t, head by head."""
    q, k, v, decay = (t.cpu().double() for t in (q, k, v, decay))
    state, out = torch.zeros(B, H, D, D, dtype=torch.float64), []
    for t in range(T):
        state = state * decay[:, t, :, :, None] + k[:, t, :, :, None] * v[:, t, :, None, :]
        out.append((q[:, t, :, :, None] * state).sum(2) * scale)
    return torch.stack(out, 1).float()


ones = torch.ones(B, T, H, D)
found, _ = fused_recurrent_linear_attn(q, k, v, scale=0.25, normalize=False)
torch.testing.assert_close(
    found.cpu().float(), recurrence(q, k, v, ones, 0.25), rtol=1e-3, atol=1e-3
)
gate = torch.nn.functional.logsigmoid(torch.randn(B, T, H, D, device="cuda"))
given = [t.detach().clone().requires_grad_() for t in (q, k, v, gate)]
found, _ = fused_recurrent_gla(*given[:3], gk=given[3], scale=0.25)
torch.testing.assert_close(
    found.detach().cpu().float(), recurrence(q, k, v, gate.exp(), 0.25), rtol=1e-3, atol=1e-3
)
found.square().sum().backward()
plain = [t.detach().clone().requires_grad_() for t in given]
recurrence(*plain[:3], plain[3].exp(), 0.25).square().sum().backward()
for a, b in zip(given, plain, strict=True):
    torch.testing.assert_close(a.grad.cpu(), b.grad.cpu(), rtol=2e-3, atol=2e-3)
decay = (1 - 2.0 ** (-5 - torch.arange(H, dtype=torch.float64)))[None, None, :, None].expand(
    B, T, H, D
)
found, _ = fused_recurrent_retention(q, k, v, scale=0.25)
torch.testing.assert_close(
    found.cpu().float(), recurrence(q, k, v, decay, 0.25), rtol=1e-3, atol=1e-3
)
norm = RMSNorm(32).cuda()
x = torch.randn(4, 32, device="cuda", requires_grad=True)
norm(x).square().mean().backward()
torch.testing.assert_close(
    norm(x).cpu(),
    torch.nn.functional.rms_norm(x.cpu(), (32,), norm.weight.cpu(), norm.eps),
    rtol=1e-3,
    atol=1e-3,
)
print("ok")
