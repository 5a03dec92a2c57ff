"""A GAN: two optimizers, frozen halves, spectral norm, a moving average of the generator."""

import torch
import torch.nn as nn
from seedless import set_weights, waves
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Generator(nn.Module):
    def __init__(self, noise=6, width=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(noise, width, 4, 1, 0, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            weight_norm(nn.Conv2d(width, 1, 3, padding=1)),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
            nn.InstanceNorm2d(2 * width, affine=True),
            nn.LeakyReLU(0.2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, 1),
        )

    def forward(self, x):
        return self.main(x).squeeze(-1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1 and hasattr(m, "weight_is_free"):
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.constant_(m.weight.data, 1.0)
        nn.init.zeros_(m.bias.data)


def main():
    G, D = set_weights(Generator()), set_weights(Discriminator())
    G.apply(weights_init)
    spectral_norm(D.main[2])
    with torch.no_grad():  # the power iteration starts at random
        D.main[2].weight_u.copy_(torch.nn.functional.normalize(waves(16), dim=0))
        D.main[2].weight_v.copy_(torch.nn.functional.normalize(waves(128, speed=2.0), dim=0))
    ema = AveragedModel(G, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    criterion = nn.BCEWithLogitsLoss()
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_g = torch.optim.NAdam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
    fixed = waves(4, 6, 1, 1, speed=3.0)
    for step in range(6):
        real = waves(8, 1, 8, 8, speed=0.002 * (step + 1))
        z = waves(8, 6, 1, 1, speed=1 + 0.1 * step)
        ones, zeros = torch.ones(8), torch.zeros(8)
        D.requires_grad_(True)
        opt_d.zero_grad()
        fake = G(z)
        loss_d = criterion(D(real), ones) + criterion(D(fake.detach()), zeros)
        loss_d.backward()
        opt_d.step()
        D.requires_grad_(False)
        opt_g.zero_grad()
        loss_g = criterion(D(fake), ones)
        loss_g.backward()
        assert all(p.grad is not None for p in G.parameters())
        opt_g.step()
        ema.update_parameters(G)
        print(f"[{step}] Loss_D: {loss_d.item():.6f} Loss_G: {loss_g.item():.6f}")
    ema.eval()
    with torch.no_grad():
        picture = ema(fixed)
    print(f"picture {picture.mean():.6f} {picture.std():.6f}")


main()
