"""torch.optim._functional: steps of optimizers as functions of lists."""

from __future__ import annotations

from tritorch.core.tensor import Tensor
from tritorch.optim.adadelta import adadelta
from tritorch.optim.adagrad import adagrad
from tritorch.optim.adam import adam
from tritorch.optim.adamax import adamax
from tritorch.optim.adamw import adamw
from tritorch.optim.asgd import asgd
from tritorch.optim.nadam import nadam
from tritorch.optim.radam import radam
from tritorch.optim.rmsprop import rmsprop
from tritorch.optim.rprop import rprop
from tritorch.optim.sgd import sgd
from tritorch.optim.sparse_adam import SparseAdam

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop",
    "sgd", "sparse_adam",
]  # fmt: skip


def sparse_adam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    state_steps: list[int], *, eps: float, beta1: float, beta2: float, lr: float, maximize: bool,
) -> None:  # fmt: skip
    """One step of SparseAdam; `state_steps` count this step already."""
    optimizer = SparseAdam.__new__(SparseAdam)
    group = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "maximize": maximize}
    for p, grad, average, square, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps):
        state = {"exp_avg": average, "exp_avg_sq": square, "step": step - 1}
        optimizer.update_gradient(p, grad, state, group)
