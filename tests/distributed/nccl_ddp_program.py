"""DistributedDataParallel on simulated GPUs: a small GPT's losses are those of one process."""

import tritorch as torch
import tritorch.distributed as dist
from tests.distributed.training import trained
from tritorch import nn
from tritorch.nn.parallel import DistributedDataParallel as DDP

F = nn.functional
GPU, WORDS, LENGTH = "cuda", 11, 6


class Letters(nn.Module):
    """A decoder over characters: one block of attention and an MLP."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 8), nn.Embedding(LENGTH, 8)
        self.before, self.after = nn.LayerNorm(8), nn.LayerNorm(8)
        self.mixed, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, WORDS)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        parts = self.mixed(self.before(x)).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        x = x + self.narrow(F.gelu(self.wide(self.after(x))))
        return self.head(x)


def train(rank, size, wrap, compiled=False, steps=3):
    torch.manual_seed(0)
    model = Letters().to(GPU)

    def batches():
        for step in range(steps):
            torch.manual_seed(step)
            yield torch.randint(0, WORDS, (8, LENGTH + 1))[rank::size].to(GPU)

    return trained(model, lambda p: torch.optim.SGD(p, 0.5), batches(), wrap, compiled)


def main():
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    wanted, weights = train(0, 1, None)
    for compiled in (False, True):
        for options in ({"gradient_as_bucket_view": True}, {"bucket_cap_mb": 1e-4}):

            def wrap(model, options=options):
                return DDP(model, **options)

            found, mine = train(rank, size, wrap, compiled)
            again, others = train(rank, size, wrap, compiled)
            assert found == again, (found, again)
            assert all(torch.equal(a, b) for a, b in zip(mine, others, strict=True))
            assert all(abs(a - b) < 1e-5 for a, b in zip(found, wanted, strict=True)), (
                found, wanted, compiled, options,
            )  # fmt: skip
            for a, b in zip(mine, weights, strict=True):
                assert torch.allclose(a, b, 1e-4, 1e-5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
