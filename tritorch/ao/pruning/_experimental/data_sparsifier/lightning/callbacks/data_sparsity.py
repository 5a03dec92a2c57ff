"""Callbacks that sparsify a copy of a Lightning module's model, during training or after it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytorch_lightning as pl  # type: ignore[import-not-found]

from tritorch.ao.pruning._experimental.data_sparsifier.lightning.callbacks import (
    _data_sparstity_utils as utils,
)


class PostTrainingDataSparsity(pl.callbacks.Callback):
    """Sparsifies a copy of the model when training ends: `sparsified`."""

    def __init__(self, data_sparsifier_class: Any, data_sparsifier_args: dict[str, Any]) -> None:
        super().__init__()
        self.data_sparsifier_class = data_sparsifier_class
        self.data_sparsifier_args = data_sparsifier_args
        self.data_sparsifier: Any = None
        self.sparsified: Any = None

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Copies and sparsifies the model."""
        self.sparsified = deepcopy(pl_module.model).eval()
        self.data_sparsifier = self.data_sparsifier_class(**self.data_sparsifier_args)
        utils._attach_model_to_data_sparsifier(self.sparsified, self.data_sparsifier)
        self.data_sparsifier.step()
        self.data_sparsifier.squash_mask()
        utils._log_sparsified_level(self.sparsified, self.data_sparsifier)


class TrainingAwareDataSparsity(pl.callbacks.Callback):
    """Sparsifies a copy of the model after each epoch, as a scheduler says: `sparsified`."""

    def __init__(
        self,
        data_sparsifier_class: Any,
        data_sparsifier_args: dict[str, Any],
        data_scheduler_class: Any,
        data_scheduler_args: dict[str, Any],
    ) -> None:
        super().__init__()
        self.data_sparsifier_class = data_sparsifier_class
        self.data_sparsifier_args = data_sparsifier_args
        self.data_scheduler_class = data_scheduler_class
        self.data_scheduler_args = data_scheduler_args
        self.data_sparsifier: Any = None
        self.data_scheduler: Any = None
        self.sparsified: Any = None
        self.data_sparsifier_state_dict: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Makes the sparsifier and the scheduler; the scheduler reads its base levels from data."""
        self.data_sparsifier = self.data_sparsifier_class(**self.data_sparsifier_args)
        self.sparsified = deepcopy(pl_module.model)
        utils._attach_model_to_data_sparsifier(self.sparsified, self.data_sparsifier)
        arguments = {**deepcopy(self.data_scheduler_args), "data_sparsifier": self.data_sparsifier}
        self.data_scheduler = self.data_scheduler_class(**arguments)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Restores the sparsifier's state of the last epoch."""
        if self.data_sparsifier_state_dict is not None:
            self.data_sparsifier.load_state_dict(self.data_sparsifier_state_dict)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Copies and sparsifies the model, with the configurations of the last epoch."""
        self.sparsified = deepcopy(pl_module.model)
        config = {}
        if self.data_sparsifier_state_dict is not None:
            for path, _ in pl_module.model.named_parameters():
                name = utils._get_valid_name(path)
                config[name] = self.data_sparsifier.data_groups[name]
        utils._attach_model_to_data_sparsifier(self.sparsified, self.data_sparsifier, config=config)
        self.data_sparsifier.step()
        self.data_scheduler.step()
        self.data_sparsifier_state_dict = self.data_sparsifier.state_dict()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Applies the masks."""
        self.data_sparsifier.squash_mask()
