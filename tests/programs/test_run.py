"""Programs written for PyTorch run unchanged."""

import json
import subprocess
import sys

PROGRAM = """
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR
import torch.distributed as dist
from torch.distributed import init_process_group

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = StepLR(optimizer, 50, 0.5)
x = torch.linspace(-1, 1, 64).reshape(32, 2)
y = (x[:, :1] * x[:, 1:]).sin()
losses = []
for _ in range(int(sys.argv[1])):
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
try:
    init_process_group("nccl")
    told = ""
except NotImplementedError as error:
    told = str(error)
found = [losses[0], losses[-1], torch.__name__, told, __name__, isinstance(x, torch.Tensor)]
print(json.dumps(found))
"""


def test_a_program(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", str(script), "150"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, last, name, told, main, is_tensor = json.loads(done.stdout)
    assert last < 0.1 * first and name == "torch" and main == "__main__" and is_tensor
    assert told == "tritorch has no torch.distributed.init_process_group yet"


def test_a_missing_script_is_told():
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", "nowhere.py"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "no such file: nowhere.py" in done.stderr


def test_as_torch_in_a_process():
    code = (
        "import tritorch; tritorch.as_torch(); import torch, torch.nn.functional as F; "
        "assert torch is tritorch and torch.nn.functional is tritorch.nn.functional; "
        "assert tritorch.__spec__.name == 'tritorch' == tritorch.nn.__spec__.name[:8]; "
        "print(F.relu(torch.tensor([-1.0, 2.0])).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[0.0, 2.0]\n", done.stderr
