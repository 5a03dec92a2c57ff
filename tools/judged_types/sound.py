"""Programs' ordinary lines, in which type checkers must find nothing wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, autograd, optim
from torch.amp import GradScaler
from torch.autograd import Function
from torch.func import grad, vmap
from torch.nn import Module, Parameter, init
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Numbers(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((3,), float(index)), index


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[Tensor]:
        yield torch.ones(2)


class Block(nn.Module):
    mask: Tensor

    def __init__(self, width: int, heads: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.scale = Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)])
        self.register_buffer("mask", torch.tril(torch.ones(8, 8, dtype=torch.bool)))
        init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.reshape((b, t, self.heads, -1)).permute(0, 2, 1, 3)
        v = v.unflatten(-1, (self.heads, -1)).movedim(2, 1)
        scores = (q @ k.mT) / (c // self.heads) ** 0.5
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) + y
        for layer in self.layers:
            layer.train()
        return x + self.drop(self.out(y.transpose(1, 2).contiguous().flatten(2))) * self.scale


def train(model: Module, loader: DataLoader, device: torch.device | str) -> float:
    optimizer = optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = CosineAnnealingLR(optimizer, T_max=10)
    LambdaLR(optimizer, lambda step: min(1.0, step / 10))
    scaler = GradScaler("cuda", enabled=False)
    total = 0.0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        total += loss.item() + float(norm)
    return total / len(loader)


x = torch.randn(4, 8, requires_grad=True)
torch.randn((4, 8), generator=torch.Generator().manual_seed(0), device="cpu", dtype=torch.float64)
torch.zeros(2, 3), torch.zeros((2, 3)), torch.ones([2, 3]), torch.zeros(x.shape), torch.empty(0)
torch.full((2,), 1.5), torch.eye(3), torch.arange(3), torch.arange(0, 3), torch.arange(0, 1, 0.1)
torch.linspace(0, 1, 5), torch.tensor([[1, 2], [3, 4]]), torch.as_tensor(np.ones(3)), torch.rand(3)
torch.randint(0, 10, (3,)), torch.randint(10, (3,)), torch.randperm(5), torch.zeros_like(x)
torch.from_numpy(np.zeros((2, 2))).to(torch.float32).to("cpu", torch.float64).to(x)
x.to(device="cpu", dtype=torch.float16), x.to("cpu", memory_format=torch.channels_last), x.cuda
(
    x.sum(),
    x.sum(1),
    x.sum(dim=(0, 1), keepdim=True),
    x.sum(axis=1),
    torch.sum(x, 0, dtype=torch.double),
)
x.mean(-1), x.std(), x.std(0), x.var(dim=1, unbiased=False), x.var(1, correction=0), x.norm(dim=1)
(
    torch.norm(x),
    torch.norm(x, p=2, dim=1),
    torch.norm(x, "fro"),
    x.norm(2, 1),
    torch.linalg.norm(x, 2),
)
x.view(2, -1), x.view((2, 16)), x.view(torch.int32), x.reshape(-1), x.permute(1, 0), x.t(), x.T
x.expand(4, -1), x.expand(2, *x.shape), x.repeat(2, 1), x.flip(0), x.flip([0, 1]), x.roll(1, 0)
x.squeeze(), x.squeeze(0), x.unsqueeze(-1), x[None], x[..., 0], x[1:, ::2], x[x > 0], x[[0, 1]]
x[torch.tensor([0, 1]), 0], x[:, np.array([0])], x[0, 0].item() + 1, x[range(2)]
y = x.detach().clone()
y[0] = 1.0
y[y > 1] = 0
y[:, 0] = torch.ones(4)
y += 1
y *= y
y.add_(x.detach(), alpha=2).mul_(2).clamp_(0, 1).zero_()
x.max(), x.max(1).values, x.max(dim=1)[1], torch.max(x, x), x.argmax(-1), x.topk(2).indices
values, indices = x.sort(dim=1, descending=True)
best, where = torch.max(x, dim=1)
values.add(1), indices.tolist(), best.abs(), where.float(), torch.sort(x)[0].sum()
(
    torch.cat([x, x]),
    torch.cat((x, x), dim=1),
    torch.stack([x, x], -1),
    torch.cat([p * 2 for p in [x, x]]),
)
a, b = x.split(2), torch.split(x, [1, 3], dim=0)
len(a), [part.sum() for part in b], torch.chunk(x, 2), x.unbind(0)
torch.where(x > 0, x, 0.0), torch.where(x > 0)[0], x.where(x > 0, x), x.masked_fill(x > 0, 1)
torch.clamp(x, min=0), x.clamp(0, 1), x.clamp(min=x), torch.einsum("ij,kj->ik", x, x)
x + 1, 1 + x, 2 * x, x / 2, 1 / x, x**2, 2**x, x // 1, x % 2, -x, ~(x > 0), (x > 0) & (x < 1)
(x == 1).all(), (x != 0).any(), bool((x == x).all()), x == None, x is None
x.eq(1).sum().item(), abs(x), x @ x.T, x.matmul(x.t()), x.dot, divmod(x, 2)
float(x.sum()), int(x.sum()), len(x), x.size(), x.size(0) + 1, x.stride(0) + 1, x.shape[0] + 1
[row.sum() for row in x], x.numpy, x.detach().cpu().numpy().astype("float32"), np.asarray(y)
(
    x.shape.numel(),
    torch.Size([1, 2]),
    (*x.shape, 3),
    x.shape[:-1] + (1,),
    list(x.shape),
    x.shape == (4, 8),
)
(
    x.gather(1, indices),
    y.scatter_(1, indices, 1.0),
    y.scatter(0, indices, x),
    y.index_add_(0, where, x),
)
x.is_cuda, x.device.type == "cpu", x.dtype == torch.float32, x.ndim + 1, x.requires_grad, x.is_leaf
x.sum().backward()
if x.grad is not None:
    x.grad.zero_()
torch.unique(x).numel(), x.unique(return_counts=True)[1].sum(), torch.nonzero(x).size(0)
(
    x.nonzero(as_tuple=True)[0].sum(),
    F.max_pool2d(torch.ones(1, 1, 4, 4), 2).sum(),
    x.bool().int().long(),
)
F.interpolate(torch.ones(1, 1, 4, 4), scale_factor=2, mode="nearest"), F.pad(x, (1, 1)), F.gelu(x)
(
    F.mse_loss(x, y),
    F.one_hot(where, 8).float(),
    F.embedding(where, x),
    F.layer_norm(x, (8,)),
    F.elu(x),
)
(
    F.dropout(x, 0.5, training=True),
    F.leaky_relu(x, 0.2),
    F.linear(x, x),
    F.normalize(x, dim=1),
    F.silu(x),
)
torch.linalg.svd(x).S, torch.linalg.eigh(x @ x.T)[0], torch.fft.rfft(x).abs(), torch.special.erf(x)
u, s, vh = torch.linalg.svd(x, full_matrices=False)
u @ torch.diag(s) @ vh, torch.outer(s, s), torch.cumsum(x, 0), torch.cdist(x, x), torch.trace(x)
model = nn.Sequential(Block(8), nn.Flatten(), nn.Linear(8, 2)).to("cpu").eval()
for name, parameter in model.named_parameters():
    parameter.data.mul_(0.5)
    print(name, parameter.numel(), parameter.shape, parameter.requires_grad_(False))
model.load_state_dict(torch.load("file", map_location="cpu", weights_only=True))
torch.save({"model": model.state_dict()}, "file")
first, rest = random_split(Numbers(), [8, 2])
train(model, DataLoader(TensorDataset(x, where), batch_size=2, shuffle=True, num_workers=0), "cpu")
(
    DataLoader(first, 2, collate_fn=None, drop_last=True),
    DataLoader(Stream()),
    next(iter(DataLoader(rest))),
)
pad_sequence([x, x], batch_first=True), pack_padded_sequence(x, [1, 2], batch_first=True)
lstm = nn.LSTM(8, 16, num_layers=2, batch_first=True, bidirectional=True)
out, (h, c) = lstm(x[None])
out.sum() + h.sum() + c.sum()
(
    Square.apply(x),
    grad(lambda t: t.sin().sum())(x),
    vmap(torch.sin)(x),
    torch.func.jacrev(torch.sin)(x),
)
(gx,) = autograd.grad(x.sum(), x, create_graph=True)
torch.autograd.grad(x.sum(), [x])
torch.compile(model)(x), torch.manual_seed(0), torch.cuda.is_available(), torch.cuda.Stream
(
    torch.set_grad_enabled(False),
    torch.inference_mode(),
    torch.get_default_dtype(),
    torch.finfo(torch.float32).eps,
)
(
    torch.utils.data.DataLoader,
    torch.nn.functional.relu(x),
    torch.nn.init.ones_,
    torch.nn.utils.clip_grad_norm_,
)
torch.optim.SGD([{"params": [x], "lr": 0.1}], lr=0.01, momentum=0.9, nesterov=True).step()
(
    torch.distributions.Normal(0.0, 1.0).sample((3,)).sum(),
    torch.distributions.Categorical(logits=x).log_prob(where),
)
nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 2)(x[None])
nn.MultiheadAttention(8, 2, batch_first=True)(x[None], x[None], x[None])[0].sum()
(
    nn.CrossEntropyLoss(reduction="none")(x, where).mean(),
    nn.Conv2d(3, 8, (3, 3), stride=2, padding="valid"),
)


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).argmax(dim=-1).eq(1).float().mean()


evaluate(model, x).item()
hook = x.register_hook(lambda g: g * 2)
hook.remove()
flags = torch.tensor([True]).logical_not().any().item()
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic, torch.backends.cuda.matmul.allow_tf32, torch.__version__
torch.nn.parallel.DistributedDataParallel(model)
torch.cuda.FloatTensor
torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist"), x.new_zeros(3), x.new_tensor([1.0])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
total = sum((p**2).sum() for p in model.parameters())
torch.testing.assert_close(x, x)
torch.allclose(x, x, atol=1e-6), torch.equal(x, x)
