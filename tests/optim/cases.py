"""What tools/record/optim.py runs on torch and the tests run on tritorch: `M` is either."""

from __future__ import annotations

import contextlib
import copy
import importlib
import warnings
from typing import Any

import numpy as np

SHAPES = [(2, 3), (4,)]
STEPS, RESUME_AT = 5, 3
CLASSES = [
    "SGD", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop",
    "Rprop", "Adafactor", "Muon",
]  # fmt: skip

# (class, options): each with float32; the first of a class also with float64, complex64, on a GPU.
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "foreach": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True, "betas": (0.5, 0.6)}),
    ("Adam", {"lr": 0.01, "maximize": True, "foreach": True, "eps": 1e-3}),
    ("Adam", {"lr": 0.01, "fused": True, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "maximize": True, "foreach": True}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    ("Adadelta", {"rho": 0.6, "maximize": True, "foreach": True}),
    ("Adagrad", {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.3, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "fused": True}),
    ("Adamax", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adamax", {"betas": (0.5, 0.6), "maximize": True, "foreach": True}),
    ("ASGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 2, "lambd": 0.1, "alpha": 0.5, "maximize": True}),
    ("ASGD", {"lr": 0.1, "t0": 1, "foreach": True}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("RAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1, "betas": (0.5, 0.8)}),
    ("RAdam", {"lr": 0.1, "maximize": True, "foreach": True, "betas": (0.5, 0.9)}),
    ("RMSprop", {"lr": 0.01, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True}),
    ("RMSprop", {"lr": 0.01, "centered": True, "alpha": 0.5, "maximize": True}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "foreach": True}),
    ("Rprop", {"lr": 0.01}),
    ("Rprop", {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.015), "maximize": True}),
    ("Adafactor", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adafactor", {"eps": (1e-4, 1e-2), "d": 2.0, "beta2_decay": -0.5, "maximize": True}),
    ("Muon", {"lr": 0.05}),
    ("Muon", {"lr": 0.05, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}),
]

LBFGS = [
    {"lr": 0.1, "max_iter": 6},
    {"line_search_fn": "strong_wolfe", "max_iter": 8},
    {"line_search_fn": "strong_wolfe", "history_size": 2, "lr": 0.5},
    {"lr": 0.05, "max_iter": 4, "history_size": 2, "tolerance_change": 1e-3},
]

SPARSE_ADAM = [{"lr": 0.1}, {"lr": 0.1, "betas": (0.5, 0.6), "maximize": True}]

SCHEDULERS = [
    "LambdaLR(opt, lambda e: 0.9**e)",
    "LambdaLR(opt, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])",
    "MultiplicativeLR(opt, lambda e: 0.9)",
    "StepLR(opt, 3, gamma=0.5)",
    "MultiStepLR(opt, [2, 5, 5], gamma=0.5)",
    "ConstantLR(opt, 0.25, 4)",
    "LinearLR(opt, 0.25, 0.75, 5)",
    "LinearLR(opt)",
    "ExponentialLR(opt, 0.8)",
    "PolynomialLR(opt, 6, 2.0)",
    "CosineAnnealingLR(opt, 4, 0.01)",
    "CosineAnnealingWarmRestarts(opt, 2, 2, 0.001)",
    "CosineAnnealingWarmRestarts(opt, 3)",
    "CyclicLR(opt, 0.01, 0.1, 3)",
    "CyclicLR(opt, 0.01, [0.1, 0.2], 2, 4, mode='triangular2', base_momentum=0.7)",
    "CyclicLR(opt, 0.01, 0.1, 3, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "CyclicLR(opt, 0.01, 0.1, 2, scale_fn=lambda x: 0.5**x, scale_mode='iterations')",
    "OneCycleLR(opt, 0.3, 12)",
    "OneCycleLR(opt, [0.3, 0.2], epochs=4, steps_per_epoch=3, anneal_strategy='linear')",
    "OneCycleLR(opt, 0.3, 13, three_phase=True, pct_start=0.4, div_factor=5.0)",
    "SequentialLR(opt, [ConstantLR(opt, 0.1, 2), ExponentialLR(opt, 0.9)], [3])",
    "SequentialLR(opt, [LinearLR(opt, 0.1, 1.0, 4), CosineAnnealingLR(opt, 8)], milestones=[4])",
    "ChainedScheduler([ConstantLR(opt, 0.1, 3), ExponentialLR(opt, 0.9), StepLR(opt, 2)])",
    "SWALR(opt, 0.05, 4)",
    "SWALR(opt, [0.05, 0.01], anneal_epochs=3, anneal_strategy='linear')",
    "SWALR(opt, 0.05, 0)",
    "ReduceLROnPlateau(opt, patience=1, factor=0.5)",
    "ReduceLROnPlateau(opt, 'max', 0.3, 0, 0.1, 'abs', 2, [0.01, 0.04])",
]
EPOCH_FORM = ["StepLR(opt, 3, gamma=0.5)", "MultiStepLR(opt, [2, 5, 5], gamma=0.5)",
              "ConstantLR(opt, 0.25, 4)", "LinearLR(opt, 0.25, 0.75, 5)", "ExponentialLR(opt, 0.8)",
              "PolynomialLR(opt, 6, 2.0)", "CosineAnnealingLR(opt, 4, 0.01)",
              "CosineAnnealingWarmRestarts(opt, 2, 2, 0.001)"]  # fmt: skip
RESUMED = [text for text in SCHEDULERS if not text.startswith(("Seq", "Chained", "Reduce"))]
METRICS = [1.0, 0.9, 0.95, 0.95, 0.96, 0.5, 0.6, 0.7, 0.7, 0.71, 0.4, 0.39]

# `p` is a leaf of shape (2, 3), `o` torch.optim, `s` lr_scheduler, `opt` an SGD of two groups.
ERRORS = [
    "o.SGD([p], lr=-1)",
    "o.SGD([p], lr=1, momentum=-1)", "o.SGD([p], lr=1, weight_decay=-1)",
    "o.SGD([p], lr=1, nesterov=True)", "o.SGD([p * 2], lr=1)",
    "o.SGD([p], fused=True, foreach=True)",
    "o.SGD([p], fused=True, differentiable=True)", "o.SGD([('a', p), q])",
    "o.SGD([{'params': [p]}, {'params': [p]}])", "o.SGD([{'params': {p}}])",
    "o.SGD([('a', p)]).add_param_group({'params': [q]})", "o.SGD([p]).add_param_group([q])",
    "o.Optimizer([p], {'lr': required})", "o.Optimizer([p], {}).step()",
    "o.SGD([p]).load_state_dict({'state': {}, 'param_groups': []})",
    "o.SGD([p]).load_state_dict({'state': {}, 'param_groups': [{'params': [0, 1]}]})",
    "o.Adam([p], lr=-1.0)", "o.Adam([p], betas=(1.0, 0.9))", "o.Adam([p], betas=(0.9, -1.0))",
    "o.Adam([p], eps=-1)", "o.Adam([p], weight_decay=-1)",
    "o.Adam([p], betas=(0.9, M.tensor(0.9)))",
    "o.Adam([p], lr=M.tensor([1.0, 2.0]))", "o.Adam([p], lr=M.tensor(0.1), foreach=True)",
    "o.Adam([p], betas=(M.tensor(0.9), M.tensor(0.9)), foreach=True)",
    "o.Adadelta([p], rho=2)", "o.Adadelta([p], eps=-1)", "o.Adagrad([p], lr_decay=-1)",
    "o.Adagrad([p], initial_accumulator_value=-1)", "o.Adagrad([p], fused=True, foreach=True)",
    "o.Adamax([p], betas=(0.9, 2))", "o.ASGD([p], weight_decay=-1)",
    "o.NAdam([p], momentum_decay=-1)",
    "o.RAdam([p], lr=-1)", "o.RMSprop([p], alpha=-1)", "o.RMSprop([p], momentum=-1)",
    "o.Rprop([p], etas=(2, 3))", "o.SparseAdam([p], lr=0)", "o.SparseAdam([p], eps=0)",
    "o.SparseAdam([p + 0j], lr=0.1)", "step(o.SparseAdam([p]))", "o.Adafactor([p], d=0.5)",
    "o.Adafactor([p], lr=-1)", "o.Adafactor([p], eps=(-1, 0))", "o.Adafactor([p], beta2_decay=1)",
    "o.Muon([q])", "o.Muon([p], adjust_lr_fn='no')", "o.Muon([p], momentum=-1)",
    "step(o.Muon([p], ns_steps=100))", "o.LBFGS([{'params': [p]}, {'params': [q]}])",
    "o.LBFGS([p], lr=-1)", "step(o.LBFGS([p], line_search_fn='no'), lambda: (p * p).sum())",
    "s.StepLR(3, 1)", "s.LambdaLR(opt, [lambda e: 1])", "s.MultiplicativeLR(opt, 2)",
    "s.ConstantLR(opt, 2.0)", "s.LinearLR(opt, 0.0)", "s.LinearLR(opt, 0.5, 2.0)",
    "s.SequentialLR(opt, [], [])", "s.SequentialLR(opt, [s.StepLR(opt, 1)], [1])",
    "s.SequentialLR(opt, [3], [])", "s.SequentialLR(opt, [s.ReduceLROnPlateau(opt)], [])",
    "s.ChainedScheduler([])", "s.ReduceLROnPlateau(opt, factor=1.0)",
    "s.ReduceLROnPlateau(opt, 'no')", "s.ReduceLROnPlateau(opt, min_lr=[1])",
    "s.ReduceLROnPlateau(opt, threshold_mode='no')", "s.CyclicLR(opt, [1], 2)",
    "s.CyclicLR(opt, 1, 2, mode='no')", "s.CyclicLR(o.Adagrad([p]), 1, 2)",
    "s.CosineAnnealingWarmRestarts(opt, 0)", "s.CosineAnnealingWarmRestarts(opt, 1, 0)",
    "s.CosineAnnealingWarmRestarts(opt, 1, 1, 'a')", "s.OneCycleLR(opt, 1)",
    "s.OneCycleLR(opt, 1, -1)", "s.OneCycleLR(opt, 1, epochs=0, steps_per_epoch=1)",
    "s.OneCycleLR(opt, 1, 5, pct_start=2)", "s.OneCycleLR(opt, 1, 5, anneal_strategy='no')",
    "s.OneCycleLR(o.Adagrad([p]), 1, 5)", "o.swa_utils.SWALR(opt, 1, anneal_strategy='no')",
    "o.swa_utils.SWALR(opt, 1, anneal_epochs=-1)", "o.swa_utils.get_ema_avg_fn(2)",
    "o.swa_utils.get_ema_multi_avg_fn(-1)",
]  # fmt: skip


def array(shape: tuple[int, ...], phase: float, dtype: str) -> np.ndarray:
    """Fixed values about as large as one."""
    n = int(np.prod(shape))
    real = np.sin(phase + 0.7 * np.arange(n)).reshape(shape)
    if dtype.startswith("complex"):
        real = real + 1j * np.cos(1.3 * phase + 0.4 * np.arange(n)).reshape(shape)
    return real.astype(dtype)


def plain(value: Any) -> Any:
    """Tensors as lists, complex numbers as pairs."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_complex():
            value = value.real.clone(), value.imag.clone()
            return [plain(part) for part in value]
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def make(
    M: Any, name: str, options: dict[str, Any], dtype: str, device: str = "cpu", named: bool = False
) -> tuple[list[Any], Any]:
    """Parameters and an optimizer."""
    shapes = [(2, 3), (3, 2)] if name == "Muon" else SHAPES
    params = [
        M.tensor(array(shape, 1.0 + i, dtype)).to(device).requires_grad_()
        for i, shape in enumerate(shapes)
    ]
    given = [(f"p{i}", p) for i, p in enumerate(params)] if named else params
    return params, getattr(M.optim, name)(given, **options)


def step(M: Any, params: list[Any], optimizer: Any, number: int) -> None:
    """One step on the gradients of that number."""
    for i, p in enumerate(params):
        dtype = str(p.dtype).split(".")[-1]
        p.grad = M.tensor(array(tuple(p.shape), 0.9 * number + 2.0 * i, dtype)).to(p.device)
    optimizer.step()


def run(M: Any, name: str, options: dict[str, Any], dtype: str, device: str = "cpu") -> Any:
    """Parameters and state after some steps."""
    params, optimizer = make(M, name, options, dtype, device)
    for number in range(STEPS):
        step(M, params, optimizer, number)
    found = optimizer.state_dict()
    groups = [{k: plain(v) for k, v in group.items()} for group in found["param_groups"]]
    return {"params": plain(params), "state": plain(found["state"]), "groups": groups}


def run_lbfgs(M: Any, options: dict[str, Any]) -> Any:
    """Rosenbrock's valley."""
    x = M.tensor([-0.5, 0.7], dtype=M.float64, requires_grad=True)
    y = M.tensor([[1.5]], dtype=M.float64, requires_grad=True)
    optimizer = M.optim.LBFGS([x, y], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2 + (y * x[1] - 1).pow(2).sum()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(3)]
    state = optimizer.state_dict()["state"][0]
    counts = {key: state[key] for key in ("n_iter", "func_evals")}
    return {"params": plain([x, y]), "losses": losses, "counts": counts, "keys": sorted(state)}


def two_groups(M: Any) -> Any:
    """An SGD with momentum of two groups."""
    p, q = (M.tensor([1.0], requires_grad=True) for _ in range(2))
    return M.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.05}], lr=0.1, momentum=0.9)


def make_scheduler(M: Any, text: str, opt: Any) -> Any:
    """The scheduler that an expression gives."""
    return eval(text, {**vars(M.optim.lr_scheduler), "SWALR": M.optim.swa_utils.SWALR, "opt": opt})


def advance(scheduler: Any, i: int) -> None:
    """The scheduler's and its optimizer's i-th step."""
    scheduler.optimizer.step()
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        scheduler.step(METRICS[i])
    else:
        scheduler.step()


def look(scheduler: Any) -> Any:
    """Learning rates and momenta."""
    groups = scheduler.optimizer.param_groups
    return [[g["lr"] for g in groups], [g["momentum"] for g in groups], scheduler.get_last_lr()]


def run_scheduler(M: Any, text: str) -> Any:
    """Learning rates and momenta over 12 epochs, and what the state dict contains."""
    scheduler = make_scheduler(M, text, two_groups(M))
    seen = [look(scheduler)]
    for i in range(12):
        advance(scheduler, i)
        seen.append(look(scheduler))
    return {"seen": seen, "keys": sorted(scheduler.state_dict())}


def run_epochs(M: Any, text: str) -> Any:
    """Learning rates at given epochs."""
    scheduler = make_scheduler(M, text, two_groups(M))
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (3, 7, 1, 0, 4, 5):
            scheduler.step(epoch)
            seen.append(look(scheduler)[0])
    return seen


def run_resumed(M: Any, text: str) -> Any:
    """Learning rates of a new scheduler on a resumed optimizer."""
    first = make_scheduler(M, text, two_groups(M))
    for i in range(3):
        advance(first, i)
    opt = two_groups(M)
    opt.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    second = make_scheduler(M, text[:-1] + ", last_epoch=2)", opt)
    seen = [look(second)]
    for i in range(3, 7):
        advance(second, i)
        seen.append(look(second))
    return seen


def run_error(M: Any, text: str) -> Any:
    """The type and text of what an expression raises."""
    p = M.ones(2, 3, requires_grad=True)
    q = M.ones(4, requires_grad=True)
    p.grad = M.ones(2, 3)

    def stepped(optimizer: Any, *args: Any) -> Any:
        return optimizer.step(*args)

    base = importlib.import_module(f"{M.__name__}.optim.optimizer")
    scope = {
        "required": base.required,
        "M": M,
        "o": M.optim,
        "s": M.optim.lr_scheduler,
        "p": p,
        "q": q,
        "step": stepped,
    }
    with contextlib.suppress(AssertionError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(text, {**scope, "opt": two_groups(M)})
        except (TypeError, ValueError, RuntimeError, KeyError, NotImplementedError) as error:
            return [type(error).__name__, str(error)]
    return None


def sparse_step(number: int) -> tuple[list[int], np.ndarray]:
    """Rows and their gradients."""
    rows = [[0, 2], [2], [1, 0], [], [2, 0]][number]
    return rows, array((len(rows), 3), float(number), "float32")
