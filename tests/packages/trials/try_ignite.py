"""ignite: engines, events, metrics, handlers."""

import tempfile

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import (
    Checkpoint,
    CosineAnnealingScheduler,
    DiskSaver,
    EarlyStopping,
    EMAHandler,
)
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 4)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), 16)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss())
evaluator = create_supervised_evaluator(
    model,
    {
        "accuracy": Accuracy(),
        "loss": Loss(nn.CrossEntropyLoss()),
        "precision": Precision(average=True),
        "confusion": ConfusionMatrix(2),
    },
)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "running")
EMAHandler(model, momentum=0.1).attach(trainer)
trainer.add_event_handler(
    Events.ITERATION_STARTED, CosineAnnealingScheduler(optimizer, "lr", 0.02, 0.001, 40)
)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: evaluator.run(loader))
evaluator.add_event_handler(
    Events.COMPLETED, EarlyStopping(5, lambda e: -e.state.metrics["loss"], trainer)
)
with tempfile.TemporaryDirectory() as folder:
    keep = Checkpoint(
        {"model": model, "trainer": trainer}, DiskSaver(folder, require_empty=False), n_saved=1
    )
    trainer.add_event_handler(Events.EPOCH_COMPLETED, keep)
    trainer.run(loader, max_epochs=6)
    Checkpoint.load_objects({"model": model}, torch.load(keep.last_checkpoint))
assert evaluator.state.metrics["accuracy"] > 0.9 and trainer.state.metrics["running"] < 0.5
print("ok")
