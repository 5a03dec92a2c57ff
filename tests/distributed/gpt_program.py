"""The character GPT of the examples under DistributedDataParallel, beside one process.

Arguments: the device, steps, runs, and the ways ("eager", "compiled").  Each run has another seed
of the simulated device's adversary, in each process.  Rank 0 prints, for each way, how far the
losses are from one process's, and whether all runs have the first one's bits.
"""

import bz2
import json
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import numpy as np  # noqa: E402
from char_gpt import GPT  # noqa: E402

import tritorch as torch  # noqa: E402
import tritorch.distributed as dist  # noqa: E402
from tests.distributed.training import trained  # noqa: E402
from tritorch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

BATCH, CONTEXT = 8, 12


def text(characters=20_000):
    with bz2.open(EXAMPLES / "texts" / "kjv.txt.bz2", "rt", encoding="utf-8") as file:
        found = file.read(characters)
    letters = sorted(set(found))
    return np.array([letters.index(letter) for letter in found]), len(letters)


def train(device, steps, rank, size, wrap=None, compiled=False):
    """The losses of the whole batch, and the parameters at the end."""
    data, letters = text()
    torch.manual_seed(0)
    model = GPT(letters, CONTEXT, 16, 2, 2).to(device)

    def batches():
        for step in range(steps):
            starts = np.random.default_rng(step).integers(0, len(data) - CONTEXT - 1, BATCH)
            pieces = torch.from_numpy(data[starts[:, None] + np.arange(CONTEXT + 1)])
            yield pieces[rank::size].to(device)

    return trained(model, lambda p: torch.optim.AdamW(p, 3e-3), batches(), wrap, compiled)


def main():
    device, steps, count, *ways = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    wanted = [train(device, steps, 0, 1)[0] if rank == 0 else None]
    dist.broadcast_object_list(wanted, 0)

    def run(number, way):
        if device == "cuda":
            torch.cuda.simulator.seed(1000 * number + rank)
        return train(
            device, steps, rank, size, lambda model: DDP(model, bucket_cap_mb=0.01),
            way == "compiled",
        )  # fmt: skip

    for way in ways:
        losses, weights = run(0, way)
        same = True
        for number in range(1, count):
            again, others = run(number, way)
            pairs = zip(weights, others, strict=True)
            same = same and losses == again and all(torch.equal(a, b) for a, b in pairs)
        far = max(abs(a - b) for a, b in zip(losses, wanted[0], strict=True))
        told = [None] * size
        dist.all_gather_object(told, (same, far))
        if rank == 0:
            line = {"way": way, "bitwise": all(each for each, _ in told), "loss": losses[-1],
                    "off": max(each for _, each in told)}  # fmt: skip
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
