"""A variational autoencoder with transposed convolutions."""

import torch
from seedless import set_weights, waves
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset


class VAE(nn.Module):
    def __init__(self, code=4):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.SiLU(),
            nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ELU(), nn.Flatten(),
        )  # fmt: skip
        self.mu, self.logvar = nn.Linear(32, code), nn.Linear(32, code)
        self.decoder = nn.Sequential(
            nn.Linear(code, 32), nn.Unflatten(1, (8, 2, 2)), nn.ReLU(True),
            nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1), nn.GroupNorm(2, 4), nn.Mish(),
            nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid(),
        )  # fmt: skip

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.logvar(h)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        assert torch.randn_like(std).shape == eps.shape
        return mu + eps * std

    def forward(self, x, eps):
        mu, logvar = self.encode(x)
        return self.decoder(self.reparameterize(mu, logvar, eps)), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld, kld.detach()


model = set_weights(VAE())
optimizer = optim.RMSprop(model.parameters(), lr=3e-3, momentum=0.5, centered=True)
images = (waves(48, 1, 8, 8, speed=0.001) + 1) / 2
data = TensorDataset(images)
sampler = BatchSampler(SequentialSampler(data), batch_size=16, drop_last=True)
loader = DataLoader(data, batch_sampler=sampler)
for epoch in range(4):
    model.train()
    train_loss = 0
    for number, (batch,) in enumerate(loader):
        optimizer.zero_grad()
        eps = waves(16, 4, speed=1 + epoch + 0.1 * number) * 1.4
        recon, mu, logvar = model(batch, eps)
        loss, kld = loss_function(recon, batch, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(data):.5f} kl {kld:.4f}")
model.eval()
with torch.no_grad():
    sample = model.decoder(waves(4, 4)).view(4, 64)
    print("sample", *[f"{v:.5f}" for v in sample.mean(1).tolist()])
