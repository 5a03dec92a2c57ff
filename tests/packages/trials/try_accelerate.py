"""accelerate: an Accelerator trains, accumulates, clips, saves and loads; big-model tools."""

import tempfile

import torch
from accelerate import Accelerator, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.state import AcceleratorState
from accelerate.utils import find_executable_batch_size, send_to_device, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
x = torch.randn(64, 4)
y = x @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]])
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50)
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
losses = []
for _ in range(12):
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).mean().item())
assert losses[-1] < 0.3 * losses[0], losses
with tempfile.TemporaryDirectory() as folder:
    before = {k: v.clone() for k, v in accelerator.get_state_dict(model).items()}
    accelerator.save_state(folder)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.load_state(folder)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    accelerator.save_model(model, f"{folder}/m")
    with init_empty_weights():
        empty = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    assert next(empty.parameters()).is_meta
    full = load_checkpoint_and_dispatch(empty, f"{folder}/m", device_map={"": "cpu"})
    assert torch.equal(full(x), model(x))


@find_executable_batch_size(starting_batch_size=16)
def attempt(batch_size):
    if batch_size > 4:
        raise torch.OutOfMemoryError("CUDA out of memory.")
    return batch_size


assert attempt() == 4
assert send_to_device({"a": [x]}, "cpu")["a"][0] is not None
AcceleratorState._reset_state()
with Accelerator(cpu=True, mixed_precision="bf16").autocast():
    assert model(x).dtype == torch.bfloat16
print("ok")
