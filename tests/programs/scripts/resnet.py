"""A ResNet with mixed precision, a one-cycle schedule, checkpoints and running statistics."""

import os
import tempfile

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
from seedless import set_weights, waves
from torch.amp import GradScaler, autocast
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR, SequentialLR

cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = False


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(self, inplanes, planes, stride=1, norm_layer=nn.BatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = norm_layer(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inplanes != planes * self.expansion:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), norm_layer(planes)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, widths=(8, 16), classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        layers, before = [], widths[0]
        for i, width in enumerate(widths):
            layers.append(BasicBlock(before, width, stride=1 + (i > 0)))
            before = width
        self.layers = nn.ModuleList(layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(before, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn(self.stem(x))))
        for layer in self.layers:
            x = layer(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def data(step):
    x = waves(8, 3, 12, 12, speed=0.01 * (step + 1))
    return x.to(memory_format=torch.channels_last), torch.arange(8).add(step) % 5


def run(model, optimizer, scheduler, steps, amp=None):
    scaler = GradScaler("cpu", enabled=amp is torch.float16)
    for step in steps:
        x, y = data(step)
        with autocast("cpu", dtype=amp or torch.bfloat16, enabled=amp is not None):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        kind = "float32" if amp is None else str(amp).split(".")[1]
        print(f"{kind} step {step} loss {loss.item():.6f} norm {norm.item():.5f} "
              f"rate {scheduler.get_last_lr()[-1]:.6f}")  # fmt: skip


def groups(model):
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    rest = [p for n, p in model.named_parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": 1e-2}, {"params": rest, "weight_decay": 0.0}]


def main():
    model = set_weights(ResNet()).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(groups(model), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=12)
    run(model, optimizer, scheduler, range(4))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pth")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                 "scheduler": scheduler.state_dict(), "step": 4}  # fmt: skip
        torch.save(state, path)
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    other = ResNet()
    print(other.load_state_dict(checkpoint["model"]))
    optimizer = torch.optim.SGD(groups(other), lr=0.05, momentum=0.9, nesterov=True)
    scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=12)
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    run(other, optimizer, scheduler, range(checkpoint["step"], 7))
    model = set_weights(ResNet())
    for amp in (torch.bfloat16, torch.float16):
        optimizer = torch.optim.SGD(groups(model), lr=0.02, momentum=0.9)
        scheduler = SequentialLR(
            optimizer,
            [LinearLR(optimizer, 0.1, total_iters=2), CosineAnnealingLR(optimizer, T_max=4)],
            milestones=[2],
        )
        run(model, optimizer, scheduler, range(3), amp)
    print("tracked", int(other.bn.num_batches_tracked), f"{other.bn.running_var.sum():.5f}")


if __name__ == "__main__":
    main()
