"""PyTorch programs with workers, unchanged."""

import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

PROGRAM = """
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torch.utils.data.dataloader import default_collate
from torch.utils.data.sampler import SequentialSampler

class Squares(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        assert "tritorch" in torch.__file__
        return torch.tensor(i) ** 2, get_worker_info().id

def train(rank, total):
    total[rank] += rank + 1

if __name__ == "__main__":
    loader = DataLoader(
        Squares(), batch_size=2, num_workers=2, sampler=SequentialSampler(range(6)),
        multiprocessing_context=METHOD, collate_fn=default_collate,
    )
    print([(x.tolist(), w.tolist()) for x, w in loader])
    total = torch.zeros(2).share_memory_()
    mp.start_processes(train, args=(total,), nprocs=2, start_method=METHOD)
    print(total.tolist())
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_program(tmp_path, method):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("METHOD", repr(method)))
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", str(script)], check=False, capture_output=True,
        text=True, cwd=tmp_path, timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    batches = "[([0, 1], [0, 0]), ([4, 9], [1, 1]), ([16, 25], [0, 0])]"
    assert done.stdout.splitlines() == [batches, "[1.0, 2.0]"]
