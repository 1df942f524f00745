"""Trains the leaf classifier: `python -m leafscan.train FOLDER`."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from leafscan.data import LeafFolder

LOG_EVERY = 50


class LeafNet(nn.Module):
    """A small convolutional classifier."""

    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2),
            nn.SiLU(),
            nn.Conv2d(32, 64, 3, stride=2),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(64, classes)

    def forward(self, images):
        return self.head(self.features(images))


def train_epoch(model, loader, optimizer, device, epoch):
    """Mean loss of one pass over the loader."""
    criterion = nn.CrossEntropyLoss()
    total = torch.zeros((), device=device)
    for step, (images, labels) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % LOG_EVERY == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
    return total.item() / len(loader)


def predict(model, images, device):
    """Class probabilities of a batch, as a NumPy array."""
    with torch.inference_mode():
        logits = model(images.to(device))
        return logits.softmax(dim=1).cpu().numpy()


def main():
    """Command line of the training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()

    device = torch.device("cuda")
    dataset = LeafFolder(arguments.folder)
    loader = DataLoader(
        dataset,
        batch_size=arguments.batch,
        shuffle=True,
        num_workers=4,
        pin_memory=True,
        persistent_workers=True,
    )
    model = LeafNet(classes=12).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(arguments.epochs):
        mean = train_epoch(model, loader, optimizer, device, epoch)
        print(f"epoch {epoch} mean loss {mean:.4f}")
    torch.save(model.state_dict(), "leafnet.pt")


if __name__ == "__main__":
    main()
