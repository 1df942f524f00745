"""Places that look like a fault and are right: silence here is worth more than one rule more.

Each entry is a false alarm that a plainer analysis gives on real code. Beside them stand their
faulty twins, so that silence is never bought by seeing nothing.
"""

from __future__ import annotations

import textwrap

import pytest

from analyzers.analysis import AnalysisConfig, Status
from analyzers.engine import analyze
from analyzers.finding import Confidence, Finding, Severity
from analyzers.proof import prove
from analyzers.rule import MARK, find_rule

HEAD = """
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

"""


def analysed(text: str, path: str = "project/steps.py") -> list[Finding]:
    analysis = analyze(path, text)
    assert analysis.status is Status.ANALYSED, analysis.reason
    return list(analysis.findings)


def example(code: str, head: str = HEAD) -> str:
    return head.lstrip("\n") + textwrap.dedent(code).strip("\n") + "\n"


# Name of the trap, rules that stay silent at any confidence, code. Of the others, none is sure.
INNOCENT = [
    (
        "what the `to` of a project's own batch takes is not known",
        "",
        """
        class Trainer:
            def __init__(self, dataset, collate):
                self.loader = DataLoader(dataset, pin_memory=True, collate_fn=collate)

        def train(step, dataset, collate, device):
            trainer = Trainer(dataset, collate)
            for number, sample in enumerate(trainer.loader):
                step(sample[0].to(device))
        """,
    ),
    (
        "how many are true is a number and no mask",
        "GPU109",
        """
        class Pool(nn.Module):
            def forward(self, x: torch.Tensor, ids: torch.Tensor):
                last = ids.ne(0).sum(-1) - 1
                twice = (ids > 3) * 2
                return x[torch.arange(4, device=x.device), last] + x[twice]
        """,
    ),
    (
        "what is cached may lie anywhere",
        "GPU202",
        """
        def cache(dataset, labels, cache_device):
            start = 0
            for x, y in DataLoader(dataset, batch_size=8, pin_memory=True):
                labels[start : start + len(y)] = y.to(cache_device)
                start += len(y)
        """,
    ),
    (
        "the number of a piece of device memory is its address",
        "GPU105",
        """
        import pycuda.driver as cuda

        def bindings(engine):
            found = []
            for binding in engine:
                memory = cuda.mem_alloc(engine.size(binding))
                found.append(int(memory))
            return found
        """,
    ),
    (
        "a profiler waits at its end",
        "GPU401",
        """
        def dummy(model, optimizer):
            model = model.cuda()
            start = time.perf_counter()
            with torch.profiler.profile() as profiler:
                model(torch.ones(8, device="cuda")).sum().backward()
                optimizer.step()
            print(profiler.key_averages())
            return time.perf_counter() - start
        """,
    ),
    (
        "a container hands out what it is asked for",
        "",
        """
        class Instances:
            def __getitem__(self, item: torch.Tensor):
                picked = {}
                for name, value in self.items():
                    if isinstance(value, torch.Tensor):
                        picked[name] = value.cuda()[item.cpu()]
                return picked
        """,
    ),
    (
        "nothing is equal to None, and that needs no look at it",
        "GPU107",
        """
        class Encoder(nn.Module):
            def forward(self, x: torch.Tensor, g: torch.Tensor = None):
                return x if g == None else x + g.detach()
        """,
    ),
    (
        "what type() says is a number is none",
        "GPU105",
        """
        class Schedule(nn.Module):
            def forward(self, x: torch.Tensor, step: torch.Tensor):
                if type(step) is int:
                    return x * (1 - self.betas[: step + 1]).prod()
                return x * self.alphas.cumprod(0)[step]
        """,
    ),
    (
        "losses kept for a weighted sum that is differentiated",
        "GPU502 GPU503",
        """
        def step(model, weights, criteria, x, y):
            kept = {}
            out = model(x.cuda())
            for name, criterion in criteria.items():
                loss = criterion(out, y.cuda())
                kept[name] = loss
            total = torch.zeros((), device="cuda")
            for name, term in kept.items():
                total += weights[name] * term
            total.backward()
        """,
    ),
    (
        "who asks for the cache to be kept small would rather wait",
        "GPU501",
        """
        class Propagate(nn.Module):
            def forward(self, frames):
                kept = []
                for number in range(len(frames)):
                    kept.append(self.net(frames[number].cuda()))
                    if self.cpu_cache:
                        kept[-1] = kept[-1].cpu()
                        torch.cuda.empty_cache()
                return kept
        """,
    ),
    (
        "a window is made once for each size",
        "GPU105",
        """
        WINDOWS = {}

        class Spectrum(nn.Module):
            def forward(self, x: torch.Tensor):
                key = f"{x.dtype} {x.device}"
                if key not in WINDOWS:
                    WINDOWS[key] = torch.hann_window(1024).to(x.device)
                return torch.stft(x, 1024, window=WINDOWS[key])
        """,
    ),
    (
        "a parameter that has the type already is handed back as it is",
        "GPU910",
        """
        class Scale(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width, dtype=torch.float32)).to(torch.float32)
        """,
    ),
    (
        "a number beside a tensor in an annotated tuple",
        "GPU107",
        """
        class Scaled(torch.optim.Optimizer):
            def step(self, tuples: list[tuple[torch.Tensor, dict, list[str]]]):
                first, state, _ = tuples[0]
                step = state["step"]
                for p, _, _ in tuples:
                    p.add_(first.cuda())
                    if step in [10, 20, 40]:
                        self.lr *= 0.5
        """,
    ),
    (
        "what isinstance says is a number is none",
        "GPU105 GPU107",
        """
        class Schedule(nn.Module):
            def forward(self, x: torch.Tensor, t: torch.Tensor):
                if isinstance(t, float | int):
                    t = torch.full((4,), t, device=x.device)
                return x * t
        """,
    ),
    (
        "the host knows what a library is asked with is_",
        "GPU107",
        """
        class Solve(torch.autograd.Function):
            @staticmethod
            def forward(ctx, points: torch.Tensor):
                from torch._subclasses.fake_tensor import is_fake

                sparse = points.cuda().to_sparse().coalesce()
                if is_fake(points) or sparse.is_coalesced() or sparse._nnz() == 0:
                    return points
                return sparse
        """,
    ),
    (
        "what eval() gives is a network, which is tested for being there",
        "GPU107",
        """
        def generate(cfg, device, loader):
            extra = load(cfg.name).eval().to(device) if cfg.name else None
            for x in loader:
                x = x.to(device)
                if extra:
                    x = extra(x)
        """,
    ),
    (
        "what happens after a failed check of the numbers is rare",
        "GPU105 GPU106 GPU108 GPU109",
        """
        def train(model, loader, log):
            model = model.cuda()
            for x in loader:
                loss = model(x.cuda())
                if log.found_nan():
                    log.error(f"loss {loss.mean().item()}")
                    loss = loss[torch.isfinite(loss)]
                loss.mean().backward()
        """,
    ),
    (
        "an entry of a dictionary that is written out is what was written",
        "GPU105",
        """
        def split(weight, rank: int):
            u, s, v = torch.linalg.svd(weight)
            return {"u": u, "s": s, "rank": rank}

        def rounds(weight: torch.Tensor, rank: int):
            for _ in range(100):
                parts = split(weight.cuda(), rank)
                rank = parts["rank"]
                weight = parts["u"][:, 0:rank] @ parts["s"][0:rank]
        """,
    ),
    (
        "a table that is made on first use",
        "GPU201",
        """
        class Rotary(nn.Module):
            def table(self, x):
                if self.cache is None:
                    self.cache = torch.arange(x.size(1)).to(x.device)
                return self.cache
        """,
    ),
    (
        "a table of numbers beside a loss",
        "GPU503",
        """
        def step(model, x, y, lr):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            metrics = {"loss": float(loss), "lr": lr, "error": loss.detach().sqrt()}
            return loss, metrics
        """,
    ),
    (
        "adapters are merged once",
        "GPU107",
        """
        class Adapter(nn.Module):
            def merge(self, adapters, safe: bool):
                for name in adapters:
                    weight = self.base.weight.data.clone().cuda() + self.delta[name]
                    if safe and not torch.isfinite(weight).all():
                        raise ValueError(name)
        """,
    ),
    (
        "nothing is filled, and nothing is copied",
        "GPU201",
        """
        class Memory(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.cat((x, torch.empty(0).to(dtype=x.dtype, device=x.device)))
        """,
    ),
    (
        "which devices work is found out by trying them",
        "",
        """
        def usable(visible_devices):
            found = []
            for index in visible_devices:
                try:
                    torch.tensor(0, device=torch.device("cuda", index))
                except RuntimeError:
                    continue
                found.append(index)
            return found
        """,
    ),
    (
        "the host is asked to compute it",
        "GPU201",
        """
        class Rotary(nn.Module):
            def forward(self, x: torch.Tensor):
                rates = (1.0 / 10000 ** (torch.arange(0, 64, device="cpu")[:32] / 64)).to(x.device)
                return x * rates
        """,
    ),
    (
        "a parameter moves with its network",
        "GPU201",
        """
        class Position(nn.Module):
            def __init__(self, height, width):
                super().__init__()
                self.weight = nn.Parameter(torch.empty(height, width))
                nn.init.normal_(self.weight)

            def forward(self, x: torch.Tensor):
                return x + self.weight.to(device=x.device)
        """,
    ),
    (
        "keys of a mapping and beginnings of texts, under names of tensors",
        "GPU107",
        """
        class Filter(nn.Module):
            def forward(self, x: torch.Tensor, mask: torch.Tensor, key):
                for name in ("a", "b", "c", "d", "e", "f"):
                    if name in mask.keys():
                        x = x.cuda() * 2
                    if isinstance(key, tuple) and any(part.startswith("_") for part in key):
                        x = x + 1
                return x
        """,
    ),
    (
        "what failed the test for a tensor",
        "GPU107",
        """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor, mask: torch.Tensor):
                for _ in range(8):
                    x = x.cuda() * 2
                    if isinstance(mask, torch.Tensor):
                        x = x * mask
                    elif mask:
                        x = x + 1
                return x
        """,
    ),
    (
        "a function that is handed its loader and is called for each of a few",
        "GPU105",
        """
        def evaluate(model, loader, device):
            model = model.to(device).eval()
            total = torch.zeros((), device=device)
            for x, y in loader:
                with torch.no_grad():
                    total += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            return total.item()

        def evaluate_all(model, test_loader, device):
            return [evaluate(model, part, device) for part in test_loader]
        """,
    ),
    (
        "settings read from a NumPy file",
        "GPU105",
        """
        def read_settings(paths):
            settings = []
            for path in paths:
                settings.append(np.load(path, allow_pickle=True).item())
            return settings
        """,
    ),
    (
        "a grid of indices on the host",
        "GPU105",
        """
        def row_ends(height, width):
            rows, _ = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            return [row.max().item() for row in rows]
        """,
    ),
    (
        "terms of a loss summed before backward",
        "GPU502 GPU503",
        """
        def train(model, loader, criterion, penalties, optimizer):
            for images, labels in loader:
                loss = criterion(model(images), labels)
                for penalty in penalties:
                    loss += penalty(model)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
    ),
    (
        "losses collected for one backward",
        "GPU502 GPU503",
        """
        def train_task(model, batches, criterion):
            losses = []
            for images, labels in batches:
                losses.append(criterion(model(images), labels))
            torch.stack(losses).sum().backward()
        """,
    ),
    (
        "repeats with a number known to the host",
        "GPU105 GPU107",
        """
        def forward_heads(queries):
            queries = queries.cuda()
            return torch.repeat_interleave(queries, 3)
        """,
    ),
    (
        "page arithmetic that is no launch",
        "GPU606",
        """
        def page_of(position, block_size):
            page = position // block_size
            return page, position - page * block_size
        """,
    ),
    (
        "addresses compared for identity",
        "GPU906 GPU102",
        """
        def share_memory(a, b):
            same = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
            return same or a.view(-1).data_ptr() == b.view(-1).data_ptr()
        """,
    ),
    (
        "timing through a helper of the file",
        "GPU401 GPU101 GPU102",
        """
        def _sync(device):
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        def forward_time(model, images, device):
            model.to(device)
            _sync(device)
            started = time.perf_counter()
            model(images.to(device))
            _sync(device)
            return time.perf_counter() - started
        """,
    ),
    (
        "timing through a device module found at run time",
        "GPU401 GPU101",
        """
        from accelerators import get_torch_device

        def forward_time(model, images):
            get_torch_device().synchronize()
            started = time.perf_counter()
            model(images.cuda())
            get_torch_device().synchronize()
            return time.perf_counter() - started
        """,
    ),
    (
        "a barrier between processes in a loop",
        "GPU101",
        """
        def save_shards(accelerator, model, shards):
            model.cuda()
            for shard in shards:
                shard.write(model)
                accelerator.wait_for_everyone()
        """,
    ),
    (
        "only the shape of an unfinished copy",
        "GPU901",
        """
        def keep(logits):
            kept = logits.cuda().to("cpu", non_blocking=True)
            return kept, kept.shape[0], len(kept)
        """,
    ),
    (
        "a blocking copy behind an asynchronous one",
        "GPU901",
        """
        def to_host(scores, boxes):
            scores, boxes = scores.cuda(), boxes.cuda()
            early = scores.to("cpu", non_blocking=True)
            late = boxes.cpu()
            return early.numpy(), late.numpy()
        """,
    ),
    (
        "an unfinished copy handed on with its event",
        "GPU901",
        """
        def start_copy(logits):
            ready = torch.cuda.Event()
            kept = logits.cuda().to("cpu", non_blocking=True)
            ready.record()
            return kept, ready
        """,
    ),
    (
        "an unfinished copy read behind its event",
        "GPU901",
        """
        def fetch(logits):
            ready = torch.cuda.Event()
            kept = logits.cuda().to("cpu", non_blocking=True)
            ready.record()
            ready.synchronize()
            return kept.numpy()
        """,
    ),
    (
        "an unfinished copy read behind a wait for the stream",
        "GPU901 GPU101",
        """
        def fetch(logits):
            kept = logits.cuda().to("cpu", non_blocking=True)
            torch.cuda.current_stream().synchronize()
            return kept.tolist()
        """,
    ),
    (
        "a tensor parked on the host and brought back",
        "GPU901",
        """
        class Parked:
            def __init__(self, state):
                self.parked = state.cuda().to("cpu", non_blocking=True)

            def back(self):
                return self.parked.to("cuda", non_blocking=True)
        """,
    ),
    (
        "models moved one after the other",
        "GPU205 GPU201 GPU202",
        """
        def place(models, devices):
            for model in models:
                model.cuda()
            return [torch.cuda.Stream(device=device) for device in devices]
        """,
    ),
    (
        "a mask filled with a host number",
        "GPU105 GPU107",
        """
        def mute(x, mask):
            x, mask = x.cuda(), mask.cuda()
            x[mask] = 0.0
            return x
        """,
    ),
    (
        "bytes as the size of a byte buffer",
        "GPU902",
        """
        def pack(arrays):
            total = sum(array.nbytes for array in arrays)
            buffer = np.empty(total, dtype=np.uint8)
            device = torch.empty(total, dtype=torch.uint8, device="cuda")
            return buffer, device
        """,
    ),
    (
        "the list of a device tensor as what a loop goes over",
        "GPU105",
        """
        def spans(starts):
            starts = starts.cuda()
            found = []
            for start in starts.tolist():
                found.append((start, start + 16))
            return found
        """,
    ),
    (
        "a host buffer that was filled before it is moved",
        "GPU201 GPU215",
        """
        def positions(lengths):
            table = torch.zeros(len(lengths), dtype=torch.long)
            for row, length in enumerate(lengths):
                table[row] = length
            return table.cuda()
        """,
    ),
    (
        "a host tensor that was counted up before it is moved",
        "GPU201 GPU215",
        """
        def offsets(first):
            table = torch.zeros(8, dtype=torch.long)
            table += first
            other = torch.empty(8)
            other.fill_(first)
            return table.cuda(), other.cuda()
        """,
    ),
    (
        "a pinned buffer on the host by name",
        "GPU201",
        """
        def staging(count):
            return torch.empty(count, device="cpu", pin_memory=True)
        """,
    ),
    (
        "a change of type or layout is no move",
        "GPU201 GPU202 GPU205",
        """
        def prepare(batches):
            ready = []
            for batch in batches:
                image = torch.zeros(3, 8, 8).to(torch.float16)
                ready.append((image, batch.to(memory_format=torch.channels_last)))
            return ready
        """,
    ),
    (
        "scalars of NumPy and pandas",
        "GPU105 GPU106",
        """
        import pandas as pd

        def totals(frames):
            found = []
            for frame in frames:
                column = pd.Series(frame)
                found.append((column.sum().item(), np.sum(frame).item(), column.tolist()))
            return found
        """,
    ),
    (
        "metrics averaged on the host",
        "GPU105",
        """
        def epoch_means(epochs):
            means = []
            for metrics in epochs:
                means.append(torch.tensor(metrics).mean().item())
            return means
        """,
    ),
    (
        "a host tensor combined with something unknown",
        "",
        """
        def shifted(steps, unknown):
            found = []
            for _ in range(steps):
                found.append((torch.ones(3) * unknown).sum().item())
            return found
        """,
    ),
    (
        "a network checks itself with random data",
        "GPU201 GPU105 GPU107",
        """
        class Attention(nn.Module):
            def check_chunks(self, size):
                x = torch.randn(4, size, 64).cuda()
                parts = [self.forward(part) for part in torch.chunk(x, 4, dim=1)]
                assert (torch.cat(parts, dim=1) == self.forward(x)).all().item()
        """,
    ),
    (
        "settings are handed through beside tensors",
        "GPU105 GPU107",
        """
        class Runner(nn.Module):
            def forward(self, inputs: list[torch.Tensor]):
                a, b, use_bias, block_size = inputs
                a, b = a.cuda(), b.cuda()
                if use_bias:
                    b = b + 1
                return a.view(-1, int(block_size)) @ b
        """,
    ),
    (
        "an engine that is given the loss is none itself",
        "GPU502 GPU107 GPU105",
        """
        def train(initialize, config, loader):
            engine, _ = initialize(config)
            seen = 0
            for images, labels in loader:
                loss = engine(images.cuda(), labels.cuda())
                engine.backward(loss)
                if engine.steps() > 1:
                    seen += engine.batch_size() * 2
            return seen
        """,
    ),
    (
        "a batch holds lists beside its tensors",
        "GPU105 GPU108",
        """
        def train(accelerator, model, loader, cache):
            model, loader = accelerator.prepare(model, loader)
            for batch in loader:
                kept = torch.cat([cache[number] for number in batch["indices"]])
                for name in batch["image_names"]:
                    print(f"{name}")
                model(batch["pixels"], kept)
        """,
    ),
    (
        "a dataset and its collate function run in workers of the CPU",
        "GPU105 GPU107 GPU106",
        """
        class Clips(Dataset):
            def __init__(self, clips):
                self.clips = clips

            def __getitem__(self, number):
                clip = self.clips[number]
                if clip.isnan().any():
                    clip = torch.zeros_like(clip)
                return clip, clip.mean().item()

        def collate(batch):
            return torch.stack([clip for clip, _ in batch]), [mean for _, mean in batch]

        def loader(clips):
            return DataLoader(Clips(clips), collate_fn=collate, pin_memory=True)
        """,
    ),
    (
        "a reference implementation for the CPU",
        "GPU105 GPU107",
        """
        def nearest_cpu(points, queries):
            found = []
            for query in queries:
                distance = ((points - query) ** 2).sum(dim=1)
                found.append(distance.argmin().item())
            return found
        """,
    ),
    (
        "a parameter as the key of its own state",
        "GPU105",
        """
        def fragments(parameters, device):
            state = {}
            for index in range(len(parameters)):
                parameter = torch.zeros(4, device=device)
                state[parameter] = {"step": index}
                print(state[parameter]["step"])
            return state
        """,
    ),
    (
        "one read an epoch",
        "GPU105 GPU108",
        """
        def train(model, loader, criterion, optimizer, epochs):
            model = model.cuda()
            for epoch in range(epochs):
                total = torch.zeros((), device="cuda")
                for images, labels in loader:
                    loss = criterion(model(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.detach()
                print(epoch, total.item() / len(loader))
        """,
    ),
    (
        "a read every hundredth step",
        "GPU105 GPU108",
        """
        def train(model, loader, criterion, optimizer):
            model = model.cuda()
            for step, (images, labels) in enumerate(loader):
                loss = criterion(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    print(f"{step} {loss.item():.3f}")
        """,
    ),
    (
        "a read behind a debug flag",
        "GPU105 GPU108 GPU101",
        """
        def train(model, loader, criterion, debug=False):
            model = model.cuda()
            for images, labels in loader:
                loss = criterion(model(images), labels)
                loss.backward()
                if debug:
                    torch.cuda.synchronize()
                    print(loss.item())
        """,
    ),
    (
        "a table moved when it is first used",
        "GPU201 GPU202",
        """
        class Lookup(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.mapping = torch.arange(classes)

            def forward(self, labels):
                self.mapping = self.mapping.to(labels.device)
                return self.mapping[labels]
        """,
    ),
    (
        "a buffer that another method fills on the host",
        "GPU201 GPU215",
        """
        class Slots:
            def __init__(self, count):
                self.lengths = torch.zeros(count, dtype=torch.int32)

            def admit(self, slot, length):
                self.lengths[slot] = length

            def upload(self):
                return self.lengths.cuda()
        """,
    ),
    (
        "a permutation drawn on the host",
        "GPU105",
        """
        def pick(pool, turns):
            pool = pool.cuda()
            chosen = []
            for _ in range(turns):
                chosen.append(torch.randperm(16)[0].item())
            return pool[chosen]
        """,
    ),
    (
        "a result that was moved to the host before",
        "GPU105",
        """
        def labels_of(model, images):
            best = model.cuda()(images.cuda()).argmax(dim=1).to("cpu")
            names = []
            for number in range(len(best)):
                names.append(best[number].item())
            return names
        """,
    ),
    (
        "a running total that records no graph",
        "GPU502 GPU503",
        """
        @torch.no_grad()
        def validation_loss(model, loader, criterion):
            total, parts = 0, []
            for images, labels in loader:
                loss = criterion(model(images), labels)
                total += loss
                parts.append(loss)
            return total, parts
        """,
    ),
    (
        "weights averaged from state dictionaries",
        "GPU502 GPU503",
        """
        def average(models):
            total = models[0].state_dict()
            for model in models[1:]:
                for name, weight in model.state_dict().items():
                    total[name] += weight
            return total
        """,
    ),
    (
        "a wait between events that time the device",
        "GPU101 GPU102 GPU401",
        """
        def durations(model, batches):
            found = []
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            for batch in batches:
                begin.record()
                model(batch)
                end.record()
                torch.cuda.synchronize()
                found.append(begin.elapsed_time(end))
            return found
        """,
    ),
    (
        "a wait before bytes leave the process",
        "GPU101 GPU102",
        """
        from mpi4py import MPI

        def exchange(chunks, world):
            for chunk in chunks:
                chunk = chunk.cuda() * 2
                torch.cuda.synchronize()
                world.Allreduce(MPI.IN_PLACE, chunk)
        """,
    ),
    (
        "memory given back before it is measured",
        "GPU501",
        """
        def footprints(makers):
            found = []
            for make in makers:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                make()
                found.append(torch.cuda.max_memory_allocated())
            return found
        """,
    ),
    (
        "memory given back when it has run out",
        "GPU501",
        """
        def run_all(model, batches):
            for batch in batches:
                try:
                    model(batch)
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
        """,
    ),
    (
        "memory given back after a model is dropped",
        "GPU501",
        """
        def compare(names, load, images):
            for name in names:
                model = load(name).cuda()
                model(images)
                del model
                torch.cuda.empty_cache()
        """,
    ),
    (
        "other things of the same name",
        "GPU101 GPU105 GPU501",
        """
        import queue
        from contextvars import ContextVar

        current = ContextVar("current")

        class Reducer:
            def synchronize(self):
                self.comm.barrier()

            def run(self, comm, jobs: queue.Queue, lm, model):
                model.cuda()
                while True:
                    job = jobs.get()
                    job.future.get()
                    current.get()
                    comm.synchronize()
                    self.synchronize()
                    lm.empty_cache()
        """,
    ),
    (
        "a device argument that is the host",
        "GPU116 GPU201",
        """
        def host_constants(steps):
            found = []
            for step in range(steps):
                found.append(torch.tensor([step], device="cpu"))
            return found
        """,
    ),
    (
        "gradients through an attack on a model in evaluation",
        "GPU505",
        """
        def attack(model, loader, criterion):
            model.eval()
            for images, labels in loader:
                images = images.cuda().requires_grad_()
                criterion(model(images), labels.cuda()).backward()
                yield images + 0.1 * images.grad.sign()
        """,
    ),
    (
        "a stream that waits for what it is given",
        "GPU301 GPU302",
        """
        def overlapped(net, other, images):
            images = images.cuda()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                first = net(images)
            torch.cuda.current_stream().wait_stream(side)
            return first + other(images)
        """,
    ),
]

TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * 2, mask=inside)


"""
INNOCENT_TRITON = [
    (
        "a Triton kernel follows the current stream",
        "GPU301 GPU302 GPU304 GPU306 GPU908",
        """
        def scale(x):
            side = torch.cuda.Stream(device=x.device)
            with torch.cuda.device(x.device):
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    scale_kernel[(triton.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
                torch.cuda.current_stream().wait_stream(side)
            return x
        """,
    ),
    (
        "a size that is a multiple of the block by assertion",
        "GPU606",
        """
        def scale(x, block):
            n = x.numel()
            assert n % block == 0
            with torch.cuda.device(x.device):
                scale_kernel[(n // block,)](x, n, BLOCK=block)
            return x
        """,
    ),
]
QUIET = [(*row, HEAD) for row in INNOCENT] + [(*row, TRITON) for row in INNOCENT_TRITON]


@pytest.mark.parametrize(
    ("silent", "code", "head"), [pytest.param(*row[1:], id=row[0]) for row in QUIET]
)
def test_what_only_looks_like_a_fault_is_passed_over(silent: str, code: str, head: str) -> None:
    if find_rule("GPU105") is None:
        pytest.skip("no rules yet")
    said = [
        f"{found.rule} line {found.span.line} {found.confidence}: {found.message}"
        for found in analysed(example(code, head))
        if found.rule in silent.split() or found.confidence is not Confidence.POSSIBLE
    ]
    assert said == []


NUMBA = """
import numpy as np
from numba import cuda


@cuda.jit
def double_kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


"""
CUPY = """
import cupy as cp
import numpy as np

double = cp.RawKernel(
    'extern "C" __global__ void twice(float* x, int n) {'
    "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }",
    "twice",
)


"""
# Name, rule, severity, path, head, code with marked lines.
FAULTY = [
    (
        "a default stream that waits of its own accord is a remark",
        "GPU304",
        Severity.INFO,
        "project/steps.py",
        NUMBA,
        """
        def doubled(host, blocks):
            stream = cuda.stream()
            x = cuda.to_device(host)
            double_kernel[blocks, 256, stream](x)  # <-
            stream.synchronize()
            return x
        """,
    ),
    (
        "a stream that does not wait for the default stream races",
        "GPU304",
        Severity.ERROR,
        "project/steps.py",
        CUPY,
        """
        def doubled(host, blocks):
            side = cp.cuda.Stream(non_blocking=True)
            x = cp.asarray(host, dtype=cp.float32)
            with side:
                double((blocks,), (256,), (x, cp.int32(x.size)))  # <-
            side.synchronize()
            return x
        """,
    ),
    (
        "a read by the host on every step",
        "GPU105",
        Severity.WARNING,
        "project/steps.py",
        HEAD,
        """
        def train(model, loader, criterion):
            model = model.cuda()
            running = 0.0
            for images, labels in loader:
                loss = criterion(model(images.cuda()), labels.cuda())
                loss.backward()
                running += loss.item()  # <-
            return running
        """,
    ),
    (
        "a move to where another tensor lives",
        "GPU105",
        Severity.WARNING,
        "project/steps.py",
        HEAD,
        """
        def totals(parts):
            where = torch.zeros(1, device="cuda")
            found = []
            for part in parts:
                found.append(part.to(where).sum().item())  # <-
            return found
        """,
    ),
    (
        "a device chosen at run time",
        "GPU105",
        Severity.WARNING,
        "project/steps.py",
        HEAD,
        """
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        def totals(parts):
            found = []
            for part in parts:
                found.append(part.to(device).sum().item())  # <-
            return found
        """,
    ),
    (
        "a device by name, chosen at run time",
        "GPU105",
        Severity.WARNING,
        "project/steps.py",
        HEAD,
        """
        where = "cuda" if torch.cuda.is_available() else "cpu"

        def totals(parts):
            found = []
            for part in parts:
                found.append(torch.zeros(len(part), device=where).sum().item())  # <-
            return found
        """,
    ),
    (
        "timing in a benchmark without a wait",
        "GPU401",
        Severity.WARNING,
        "benchmarks/bench_forward.py",
        HEAD,
        """
        def forward_time(model, images):
            model, images = model.cuda(), images.cuda()
            started = time.perf_counter()
            model(images)
            return time.perf_counter() - started  # <-
        """,
    ),
    (
        "an unfinished copy read at once",
        "GPU901",
        Severity.ERROR,
        "project/steps.py",
        HEAD,
        """
        def fetch(logits):
            kept = logits.cuda().to("cpu", non_blocking=True)
            return kept.numpy()  # <-
        """,
    ),
    (
        "a running total of losses with their graphs",
        "GPU502",
        Severity.ERROR,
        "project/steps.py",
        HEAD,
        """
        def train(model, loader, criterion):
            total = 0
            for images, labels in loader:
                loss = criterion(model(images), labels)
                loss.backward()
                total += loss  # <-
            return total
        """,
    ),
    (
        "a grid that leaves the tail out",
        "GPU606",
        Severity.ERROR,
        "project/steps.py",
        TRITON,
        """
        def scale(x, block):
            n = x.numel()
            with torch.cuda.device(x.device):
                scale_kernel[(n // block,)](x, n, BLOCK=block)  # <-
            return x
        """,
    ),
]


@pytest.mark.parametrize(
    ("rule", "severity", "path", "head", "code"),
    [pytest.param(*row[1:], id=row[0]) for row in FAULTY],
)
def test_its_faulty_twin_is_seen(
    rule: str, severity: Severity, path: str, head: str, code: str
) -> None:
    if find_rule(rule) is None:
        pytest.skip(f"{rule} is not written yet")
    text = example(code, head)
    marked = {n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)}
    seen = [found for found in analysed(text, path) if found.rule == rule]
    assert {found.span.line for found in seen} == marked
    assert {found.severity for found in seen} == {severity}


def test_messages_between_processes_and_polling_are_no_sure_waits() -> None:
    text = example("""
        def serve(model, generate):
            model = model.cuda()
            while True:
                choice = torch.tensor(1, device="cuda")
                torch.distributed.broadcast(choice, 0)
                if choice.item() == 0:
                    generate(model)

        def wait_for(flags):
            done = False
            while not done:
                done = all(bool(flag.cuda().item()) for flag in flags)
                time.sleep(1)
        """)
    assert {found.confidence for found in analysed(text)} <= {Confidence.POSSIBLE}


def test_bringing_data_to_the_host_is_what_an_offload_is_for() -> None:
    text = example("""
        def offload_state(optimizer):
            for state in optimizer.state.values():
                for name, value in state.items():
                    state[name] = value.cuda().to("cpu")
        """)
    assert {found.confidence for found in analysed(text)} <= {Confidence.POSSIBLE}


def test_what_another_file_made_is_what_its_name_says() -> None:
    text = example("""
        from project.parts import build, make_loaders

        def train(cfg):
            model, optimizer = build(cfg)
            train_loader, val_loader = make_loaders(cfg)
            for x in train_loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()

        def test(model, test_loader, device):
            hits = 0
            for x, y in test_loader:
                hits += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
            return hits
        """)
    sure = [f for f in analysed(text) if f.confidence is not Confidence.POSSIBLE]
    assert [f.rule for f in sure] == ["GPU105"]
    assert [f for f in analysed(text, "tests/test_steps.py") if f.rule == "GPU105"] == []


def test_a_star_hands_on_what_the_project_imports() -> None:
    text = example(
        """
        class Grid(nn.Module):
            def forward(self, x):
                return x + torch.arange(x.shape[0]).to(x.device)
        """,
        "from models.common import *\n\n",
    )
    assert [f.rule for f in analysed(text) if f.confidence is not Confidence.POSSIBLE] == ["GPU201"]


def test_the_module_of_whichever_device_there_is_is_known() -> None:
    text = example("""
        from deepspeed.accelerator import get_accelerator

        class Reducer:
            def __init__(self):
                self.side = get_accelerator().Stream()

            def reduce(self, bucket):
                self.side.wait_stream(get_accelerator().default_stream())
                with get_accelerator().stream(self.side):
                    torch.distributed.all_reduce(bucket)
        """)
    assert [f.rule for f in analysed(text)] == ["GPU301"]


def test_a_tensor_made_once_and_moved_on_every_call_is_seen() -> None:
    if find_rule("GPU201") is None:
        pytest.skip("no rules yet")
    text = example("""
        class Scale(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = torch.ones(width)

            def forward(self, x):
                return x * self.scale.to(x.device)  # <-
    """)
    marked = {n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)}
    lines = [
        {found.span.line, *(related.span.line for related in found.related)}
        for found in analysed(text)
    ]
    assert any(marked & places for places in lines)


def test_waits_are_expected_in_a_benchmark() -> None:
    if find_rule("GPU101") is None:
        pytest.skip("no rules yet")
    text = example("""
        def run(model, batches):
            model = model.cuda()
            for batch in batches:
                out = model(batch.cuda())
                torch.cuda.synchronize()
                print(out.mean().item())
    """)
    said = [found.rule for found in analysed(text, "benchmarks/bench_run.py")]
    assert [code for code in said if code.startswith("GPU1")] == []


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            """
            def fetch(a, b):
                a, b = a.cuda(), b.cuda()
                kept = a.to("cpu", non_blocking=True)
                torch.cuda.synchronize()
                return kept.numpy(), b.cpu()
            """,
            id="an unfinished copy is read behind the wait",
        ),
        pytest.param(
            """
            def fetch(net, images):
                images = images.cuda()
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    scores = net(images)
                torch.cuda.synchronize()
                return scores.cpu()
            """,
            id="the copy reads what a side stream makes",
        ),
        pytest.param(
            """
            def fetch_all(chunks):
                kept = []
                for chunk in chunks:
                    part = chunk.cuda().to("cpu", non_blocking=True)
                    torch.cuda.synchronize()
                    kept.append(part.numpy())
                return kept
            """,
            id="a wait in a loop that guards a copy",
        ),
    ],
)
def test_no_proven_suggestion_takes_a_wait_away_that_something_needs(code: str) -> None:
    text = example(code)
    proofs = [
        (found.rule, prove("project/steps.py", text, found, AnalysisConfig()))
        for found in analysed(text)
        if found.fix is not None
    ]
    assert [rule for rule, p in proofs if p.ok and "cuda.synchronize" not in p.text] == []


def test_one_read_beside_a_whole_generation_is_no_sure_wait() -> None:
    text = example("""
        def chat(model, tokenizer, questions):
            model = model.cuda()
            for question in questions:
                made = model.generate(tokenizer(question).cuda())
                words = made[0].cpu().tolist()
                print(tokenizer.decode(words))
    """)
    found = analysed(text)
    assert [finding for finding in found if finding.confidence is not Confidence.POSSIBLE] == []


def test_waits_are_the_subject_of_a_timer() -> None:
    text = example("""
        class Timers(nn.Module):
            def forward(self, times: torch.Tensor):
                for rank in range(times.shape[0]):
                    if times.cuda()[rank] > 0:
                        print(times.cuda().min().item(), times.cuda().max().item())
    """)
    assert [
        finding for finding in analysed(text, "project/timers.py") if finding.rule < "GPU2"
    ] == []
    assert analysed(text)


def test_a_total_written_over_several_lines_is_told_of_without_a_suggestion() -> None:
    text = example("""
        def train(model, loader, criterion):
            model = model.cuda()
            total = 0
            for images, labels in loader:
                loss = criterion(model(images.cuda()), labels.cuda())
                loss.backward()
                total += (
                    loss
                    / len(loader)
                )
            return total
    """)
    found = [finding for finding in analysed(text) if finding.rule == "GPU502"]
    assert [finding.fix for finding in found] == [None]
