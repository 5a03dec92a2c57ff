"""lightning: a Trainer fits, validates, checkpoints, stops early and resumes; Fabric trains."""

import tempfile

import lightning as L
import torch
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Lit(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def predict_step(self, batch, index):
        return self.net(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 5),
        }


L.seed_everything(0)
x = torch.randn(128, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
train, val = DataLoader(data, 16, shuffle=True), DataLoader(data, 64)
with tempfile.TemporaryDirectory() as folder:
    best = ModelCheckpoint(folder, monitor="val_loss", save_last=True)
    trainer = L.Trainer(
        max_epochs=8,
        accelerator="cpu",
        logger=CSVLogger(folder),
        enable_progress_bar=False,
        enable_model_summary=True,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        callbacks=[best, EarlyStopping("val_loss", patience=4), LearningRateMonitor()],
    )
    model = Lit()
    trainer.fit(model, train, val)
    assert trainer.callback_metrics["val_loss"] < 0.5
    again = Lit.load_from_checkpoint(best.best_model_path)
    assert again.hparams.width == 16
    found = torch.cat(trainer.predict(again, val))
    assert found.shape == (128, 1)
    more = L.Trainer(
        max_epochs=10,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    more.fit(model, train, val, ckpt_path=f"{folder}/last.ckpt")
    assert more.current_epoch == 10
    L.Trainer(fast_dev_run=True, accelerator="cpu", precision="bf16-mixed", logger=False).fit(
        Lit(), train
    )

fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
plain = nn.Linear(4, 1)
model, optimizer = fabric.setup(plain, torch.optim.SGD(plain.parameters(), lr=0.1))
losses = []
for a, b in fabric.setup_dataloaders(train):
    loss = nn.functional.mse_loss(model(a), b)
    fabric.backward(loss)
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
assert losses[-1] < losses[0]
with tempfile.TemporaryDirectory() as folder:
    state = {"model": model, "optimizer": optimizer, "step": 3}
    fabric.save(f"{folder}/c.ckpt", state)
    state["step"] = 0
    fabric.load(f"{folder}/c.ckpt", state)
    assert state["step"] == 3
print("ok")
