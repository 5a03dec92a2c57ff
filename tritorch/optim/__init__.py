"""Optimizers and learning rate schedules, as in torch.optim."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.optim import (
        adadelta as adadelta,
        adagrad as adagrad,
        adam as adam,
        adamax as adamax,
        adamw as adamw,
        asgd as asgd,
        lbfgs as lbfgs,
        nadam as nadam,
        optimizer as optimizer,
        radam as radam,
        rmsprop as rmsprop,
        rprop as rprop,
        sgd as sgd,
        sparse_adam as sparse_adam,
    )


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
