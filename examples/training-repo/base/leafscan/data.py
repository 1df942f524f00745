"""Leaf photographs and their labels, read from a folder of `.npy` files."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class LeafFolder(Dataset):
    """Images as float tensors of shape (3, 224, 224), labels as class numbers."""

    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npy"))
        index = np.load(Path(folder) / "labels.npz", allow_pickle=True)
        self.labels = index["labels"].item()
        self.weights = torch.ones(len(self.paths))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        path = self.paths[number]
        image = torch.from_numpy(np.load(path)).permute(2, 0, 1).float() / 255
        return image, self.labels[path.stem]


def class_counts(dataset):
    """How often each class occurs; runs once, on the host."""
    counts = {}
    for _, label in dataset:
        counts[label] = counts.get(label, 0) + 1
    return counts
