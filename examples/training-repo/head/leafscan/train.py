"""Trains the leaf classifier: `python -m leafscan.train FOLDER VALIDATION`."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from leafscan.data import LeafFolder
from leafscan.prefetch import Prefetcher

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
    running = 0.0
    for step, (images, labels) in enumerate(loader):
        mask = torch.ones(images.shape).to(device)
        left = 32 * (step % 6)
        mask[:, :, :, left : left + 32] = 0
        loss = criterion(model(images * mask), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step % LOG_EVERY == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
    return running / len(loader)


def evaluate(model, loader, device):
    """Share of validation images whose species is right."""
    model.eval()
    correct = torch.zeros((), device=device)
    seen = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        logits = model(images)
        correct += (logits.argmax(dim=1) == labels).sum()
        seen += len(labels)
    model.train()
    return correct.item() / seen


def embed(model, loader, device):
    """Feature vectors of every image, one row each."""
    rows = []
    with torch.inference_mode():
        for images, _ in loader:
            features = model.features(images.to(device))
            features = features.to("cpu", non_blocking=True)
            rows.append(features.numpy())
    return np.concatenate(rows)


def predict(model, images, device):
    """Class probabilities of a batch, as a NumPy array."""
    with torch.inference_mode():
        logits = model(images.to(device))
        probabilities = logits.softmax(dim=1)
        torch.cuda.synchronize()
        return probabilities.cpu().numpy()


def latency(model, images):
    """Seconds from a batch to its logits."""
    with torch.inference_mode():
        started = time.perf_counter()
        model(images)
        return time.perf_counter() - started


def images_per_second(model, images, turns=50):
    """Throughput of the forward pass on one batch."""
    with torch.inference_mode():
        model(images)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(turns):
            model(images)
        torch.cuda.synchronize()
        return turns * len(images) / (time.perf_counter() - started)


def main():
    """Command line of the training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("validation")
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
    validation = DataLoader(LeafFolder(arguments.validation), batch_size=256, num_workers=4)
    model = LeafNet(classes=12).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(arguments.epochs):
        mean = train_epoch(model, Prefetcher(loader, device), optimizer, device, epoch)
        accuracy = evaluate(model, validation, device)
        print(f"epoch {epoch} mean loss {mean:.4f} accuracy {accuracy:.3f}")
    sample = next(iter(validation))[0].to(device)
    print(f"{latency(model, sample):.4f} s, {images_per_second(model, sample):.0f} images/s")
    np.save("embeddings.npy", embed(model, validation, device))
    torch.save(model.state_dict(), "leafnet.pt")


if __name__ == "__main__":
    main()
