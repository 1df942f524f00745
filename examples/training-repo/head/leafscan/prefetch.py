"""Copies the next batch to the GPU while the current one is in work."""

import torch


class Prefetcher:
    """Yields the loader's batches, normalised and on the device."""

    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream()

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for images, labels in self.loader:
            with torch.cuda.stream(self.stream):
                images = images.to(self.device, non_blocking=True)
                labels = labels.to(self.device, non_blocking=True)
            yield (images - 0.5) / 0.25, labels
