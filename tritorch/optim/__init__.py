"""Optimizers and learning rate schedules, as in torch.optim."""

from tritorch.optim import lr_scheduler, swa_utils
from tritorch.optim._adafactor import Adafactor
from tritorch.optim._muon import Muon
from tritorch.optim._stateless import swap_in_optimizer_params_and_state
from tritorch.optim.adadelta import Adadelta
from tritorch.optim.adagrad import Adagrad
from tritorch.optim.adam import Adam
from tritorch.optim.adamax import Adamax
from tritorch.optim.adamw import AdamW
from tritorch.optim.asgd import ASGD
from tritorch.optim.lbfgs import LBFGS
from tritorch.optim.nadam import NAdam
from tritorch.optim.optimizer import Optimizer
from tritorch.optim.radam import RAdam
from tritorch.optim.rmsprop import RMSprop
from tritorch.optim.rprop import Rprop
from tritorch.optim.sgd import SGD
from tritorch.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
