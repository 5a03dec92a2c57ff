"""What the head of a training script asks of its surroundings, and a loop that uses the answers."""

import contextlib
import importlib.util
import logging
import math
import os
import random
import sys
import time
import warnings
from typing import Optional

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data.distributed
from seedless import set_weights, waves
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.utils import _pair
from torch.nn.parallel import DataParallel, DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LRScheduler, _LRScheduler
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

try:
    from torch.nn.attention.flex_attention import flex_attention
except ImportError:
    flex_attention = None
try:
    import torch.version as version
except ImportError:
    version = None

log = logging.getLogger(__name__)
TORCH_VERSION = tuple(int(x) for x in torch.__version__.split(".")[:2])


def is_main_process(group: Optional["dist.ProcessGroup"] = None) -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank(group) == 0


def reduce_mean(value: Tensor, group: str | None = None) -> Tensor:
    if not dist.is_available() or not dist.is_initialized():
        return value
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value / dist.get_world_size()


def seed_everything(seed: int) -> None:
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    cudnn.deterministic, cudnn.benchmark = True, False


def pick_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    if getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


class WarmupCosine(LRScheduler):
    def __init__(self, optimizer: Optimizer, warmup: int, total: int, last_epoch: int = -1):
        self.warmup, self.total = warmup, total
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch < self.warmup:
            return [base * (self.last_epoch + 1) / self.warmup for base in self.base_lrs]
        done = (self.last_epoch - self.warmup) / (self.total - self.warmup)
        return [base * 0.5 * (1 + math.cos(math.pi * done)) for base in self.base_lrs]


class Lion(Optimizer):
    """An optimizer of one's own."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                exp_avg, (beta1, beta2) = state["exp_avg"], group["betas"]
                update = exp_avg * beta1 + p.grad * (1 - beta1)
                p.add_(torch.tanh(update * 100), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


def main() -> int:
    warnings.filterwarnings("ignore")
    logging.basicConfig(level=logging.WARNING)
    seed_everything(17)
    device = pick_device()
    amp = torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else None
    context = torch.autocast(device.type, dtype=amp) if amp else contextlib.nullcontext()
    print("device", device.type, "main", is_main_process(), "torch >= 2.0", TORCH_VERSION >= (2, 0))
    print(
        "later than 1.13",
        torch.__version__ > "1.13",
        "flex",
        flex_attention is not None and TORCH_VERSION is None,
    )
    print(
        _pair(3),
        issubclass(nn.SyncBatchNorm, _BatchNorm),
        _LRScheduler.__name__,
        mp.get_start_method(True),
    )
    print(
        "tpu",
        importlib.util.find_spec("torch_xla") is not None,
        version is not None,
        torch.version.hip,
    )
    torch.set_float32_matmul_precision("high")

    data = TensorDataset(waves(40, 6), waves(40, speed=0.5))
    sampler = DistributedSampler(data, num_replicas=2, rank=1, shuffle=False)
    loader = DataLoader(data, batch_size=5, sampler=sampler, pin_memory=device.type == "cuda")
    model = set_weights(
        nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    )
    model = model.to(device)
    if isinstance(model, (DDP, DataParallel)):
        model = model.module
    elif torch.cuda.device_count() > 1 and dist.is_initialized():
        model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(model), device_ids=[device.index])
    optimizer = Lion(model.parameters(), lr=0.02, weight_decay=0.1)
    scheduler = WarmupCosine(optimizer, 2, 12)
    start = time.time()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        meter = torch.zeros(2)
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with context:
                loss = F.huber_loss(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            meter += torch.tensor([loss.item(), 1.0])
        mean = reduce_mean(meter[0] / meter[1]).item()
        print(f"epoch {epoch} loss {mean:.6f} rate {scheduler.get_last_lr()[0]:.6f}")
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
    x, y = data[:]
    model.eval()

    def closure():
        lbfgs.zero_grad()
        loss = F.mse_loss(model(x).flatten(), y)
        loss.backward()
        return loss

    for _ in range(2):
        print(f"lbfgs {lbfgs.step(closure).item():.5f}")
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        log.info("peak memory %.1f MB", torch.cuda.max_memory_allocated() / 2**20)
    log.info("took %.2f s", time.time() - start)
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    code = main()
    if code:
        sys.exit(code)
