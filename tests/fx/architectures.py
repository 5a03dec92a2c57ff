"""Ten small models in the manner of known ones."""

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, a, b, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.conv2 = nn.Conv2d(b, b, 3, padding=1, bias=False)
        self.down = nn.Conv2d(a, b, 1, stride) if a != b or stride > 1 else None

    def forward(self, x):
        same = x if self.down is None else self.down(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += same
        return torch.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Residual(3, 8, 2), Residual(8, 8), Residual(8, 16, 2))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.layers(x)), 1))


class VGG(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(8 * 16, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 5))

    def forward(self, x):
        x = self.features(x)
        return self.head(x.view(x.size(0), -1))


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(3 + 4 * i, 4, 3, padding=1) for i in range(3)])
        self.fc = nn.Linear(15, 5)

    def forward(self, x):
        found = [x]
        for block in self.blocks:
            found.append(F.relu(block(torch.cat(found, 1))))
        return self.fc(torch.cat(found, dim=1).mean([2, 3]))


class Inverted(nn.Module):
    def __init__(self, c, expand=2):
        super().__init__()
        self.expand = nn.Conv2d(c, c * expand, 1)
        self.depth = nn.Conv2d(c * expand, c * expand, 3, padding=1, groups=c * expand)
        self.project, self.act = nn.Conv2d(c * expand, c, 1), nn.ReLU6()

    def forward(self, x):
        return x + self.project(self.act(self.depth(self.act(self.expand(x)))))


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.blocks = nn.Sequential(Inverted(8), Inverted(8))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(
            F.adaptive_avg_pool2d(self.blocks(self.stem(x)), (1, 1)).reshape(len_of(x), -1)
        )


def len_of(x):
    return x.shape[0]


class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.act = nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU()
        self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.act(self.stem(x))
        gate = x.mean((2, 3), keepdim=True)
        x = x * torch.sigmoid(self.excite(self.act(self.squeeze(gate))))
        return self.fc(x.mean((2, 3)))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.three = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 3, padding=1)
        self.five, self.fc = nn.Conv2d(3, 4, 5, padding=2), nn.Linear(15, 5)

    def forward(self, x):
        pooled = F.max_pool2d(x, kernel_size=3, stride=1, padding=1)
        x = torch.cat((self.one(x), self.three(x), self.five(x), pooled), dim=1)
        return self.fc(F.avg_pool2d(x, x.size()[2:]).flatten(1))


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.depth, self.norm = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.LayerNorm(8, eps=1e-6)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)
        self.gamma, self.fc = nn.Parameter(torch.full((8,), 0.1)), nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return self.fc((x + y.permute(0, 3, 1, 2)).mean([-2, -1]))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        b = x.shape[0]
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(b, -1, -1), x], dim=1) + self.places
        q, k, v = self.qkv(self.norm1(x)).reshape(b, 17, 3, 2, 8).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(b, 17, 16))
        x = x + self.mlp(self.norm2(x))
        return self.fc(x[:, 0])


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8)
        self.tokens, self.channels = nn.Linear(16, 16), nn.Linear(8, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        x = x + F.gelu(self.channels(self.norm(x)))
        return self.fc(x.mean(dim=1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.c = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 5, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.relu(self.b(F.max_pool2d(a, 2)))
        up = F.interpolate(self.up(b), scale_factor=1.0, mode="nearest")
        return self.c(torch.cat([a, up], 1)).mean((2, 3))


MODELS = [ResNet, VGG, DenseNet, MobileNet, EfficientNet, Inception, ConvNeXt, ViT, Mixer, UNet]
