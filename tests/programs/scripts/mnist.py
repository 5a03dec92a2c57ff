"""A small convolutional net on images of digits, as the first tutorial has it."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from seedless import set_weights, waves
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(256, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout1(torch.flatten(x, 1))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


class Digits(Dataset):
    """Images of blobs at ten places, some moved and all of them noisy."""

    def __init__(self, size, transform=None):
        self.images = (waves(size, 12, 12, speed=0.3) * 40).clamp(0, 255).to(torch.uint8)
        self.labels = torch.arange(size) % 10
        for image, label in zip(self.images, self.labels):
            row, col = divmod(label.item(), 4)
            image[row * 3 : row * 3 + 3, col * 2 : col * 2 + 4] = 255
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        return (self.transform(image) if self.transform else image), self.labels[index]


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % args.log_interval == 0:
            print(
                f"epoch {epoch} [{batch * len(data)}/{len(loader.dataset)}] loss {loss.item():.7f}"
            )


def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data.to(device))
            loss += F.nll_loss(output, target.to(device), reduction="sum").item()
            predicted = output.argmax(dim=1, keepdim=True)
            correct += predicted.eq(target.view_as(predicted)).sum().item()
    print(f"test loss {loss / len(loader.dataset):.7f} correct {correct}/{len(loader.dataset)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()
    use_cuda = torch.cuda.is_available() and False
    device = torch.device("cuda" if use_cuda else "cpu")
    torch.manual_seed(1)
    options = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
    transform = Compose(
        lambda image: image.unsqueeze(0).float().div(255),
        lambda image: (image - 0.1307) / 0.3081,
    )
    data = Digits(160, transform)
    train_loader = DataLoader(Subset(data, range(128)), batch_size=32, **options)
    held_out, rest = random_split(TensorDataset(*data[3][:1]), [1, 0])
    assert len(held_out) == 1 and len(rest) == 0
    test_loader = DataLoader(Subset(data, list(range(128, 160))), batch_size=16, **options)
    model = set_weights(Net()).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
        print(f"rate {scheduler.get_last_lr()[0]:.4f}")
    print(model)
    print(f"{sum(p.numel() for p in model.parameters() if p.requires_grad)} parameters")


if __name__ == "__main__":
    main()
