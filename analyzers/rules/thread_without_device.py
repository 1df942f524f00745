"""A thread works on the GPU without having chosen which one.

## What it does
Finds functions that use the device and run in a thread of their own, where neither they nor the
thread's start make a GPU current.

## Why it matters
The current device belongs to the thread: a new one starts with GPU 0, whatever the program chose
before. Streams, events, allocations on plain `"cuda"` and memory figures are then those of GPU 0,
and every process of a training opens a context there, some hundred megabytes each.

## Example
Begin the function with `torch.cuda.set_device(device)`, or give the pool an `initializer`.

## Fix safety
Which device it is, is the program's matter, so no edit is proposed.

## When to ignore
When the program has one GPU, or everything in the thread names its device.

## References
- CUDA Runtime API, `cudaSetDevice`: sets the device for the calling host thread
- PyTorch, notes on CUDA semantics, current device
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Related, Severity, Span
from analyzers.places import Function
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import threading
        import torch

        class Loader(threading.Thread):
            def __init__(self, batches, device):
                super().__init__()
                self.batches, self.device = batches, device

            def run(self):  # <-
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    self.next = next(self.batches).to(self.device, non_blocking=True)
        """
    ),
    Bad(
        """
        import threading
        import torch

        class Summary:
            def start(self):
                self.thread = threading.Thread(target=self._worker, daemon=True)  # <-
                self.thread.start()

            def _worker(self):
                for value in iter(self.queue.get, None):
                    event = torch.cuda.Event()
                    event.record()
        """
    ),
    Bad(
        """
        import torch
        from concurrent.futures import ThreadPoolExecutor

        class Monitor:
            def __init__(self):
                self.pool = ThreadPoolExecutor(max_workers=1)  # <-

            def start(self):
                return self.pool.submit(self._measure)

            def _measure(self):  # <-
                return torch.cuda.max_memory_allocated()
        """
    ),
]
GOOD = [
    """
    import threading
    import torch

    class Loader(threading.Thread):
        def run(self):
            torch.cuda.set_device(self.device)
            self.next = next(self.batches).to(self.device, non_blocking=True)
    """,
    """
    import torch
    from concurrent.futures import ThreadPoolExecutor

    class Monitor:
        def __init__(self, device):
            self.pool = ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(device,))

        def start(self):
            return self.pool.submit(self._measure)

        def _measure(self):
            return torch.cuda.max_memory_allocated()
    """,
    # The thread does nothing with a GPU.
    """
    import threading
    import torch

    def watch(path):
        threading.Thread(target=_poll, args=(path,), daemon=True).start()

    def _poll(path):
        while not path.exists():
            pass

    def load(path):
        return torch.load(path).cuda()
    """,
    # Everything names its device.
    """
    import threading
    import torch

    def start(batches, device):
        threading.Thread(target=_copy, args=(batches, device)).start()

    def _copy(batches, device):
        return [batch.to(device) for batch in batches]
    """,
]

# What asks for the current device, and what makes one current.
_ASKS = re.compile(
    r"cuda\.(Stream|Event|current_\w+|synchronize|empty_cache|mem_get_info|memory_\w+|default_stream"
    r"|max_memory_\w+|reset_\w+|ipc_collect)\(|\.cuda\(\)|['\"]cuda['\"]|pin_memory\(|record_event\("
    r"|cuda\.stream\(|get_current_device\(|empty_cache\("
)
_CHOOSES = re.compile(
    r"set_device|cuda\.device\(|device_guard|\bDevice\(|VISIBLE_DEVICES|set_current"
)
_STARTED = re.compile(r"initializer *=.*(device|cuda)")  # every thread of the pool begins with it
_OWN_STREAM = re.compile(r"cuda\.(Stream|current_stream)\(\)")
_TASK = re.compile(r"\.(?:submit|map|imap\w*|apply_async)\(\s*(?:self\.)?(\w+)")
_POOL = re.compile(r"ThreadPool")
_THREAD = re.compile(r"^ *class (\w+)\([^)]*\b\w*Thread\b[^)]*\)", re.MULTILINE)
_AWAY = re.compile(r"(^|/)((tests?|testing|bench\w*|examples?)/|(test_|bench)\w*\.py)|_test\.py$")


@rule("GPU913", severity=Severity.WARNING, bad=BAD, good=GOOD)
def thread_without_device(timeline: Timeline) -> Iterator[Finding]:
    source = timeline.source
    if "Thread" not in source.text or _AWAY.search(source.path):
        return
    found = _functions(timeline)
    threads = set(_THREAD.findall(source.text))
    tasks = set(_TASK.findall(source.text)) if _POOL.search(source.text) else set[str]()
    for call in timeline.calls("thread"):
        target = call.argument("target")
        name = timeline.text(target.span).rpartition("=")[2].strip() if target else ""
        function = found.get(name.removeprefix("self."))
        if function is not None and _careless(timeline, function):
            sure = _mixed(timeline, function)
            yield _finding(call.span, function, "runs in this thread", sure=sure)
        elif target is None:
            yield from _pool(timeline, call, [found[task] for task in tasks if task in found])
    for function in found.values():
        own = function.name == "run" and function.class_name in threads
        if (own or function.name in tasks) and _careless(timeline, function):
            place, sure = _header(timeline, function), _mixed(timeline, function)
            yield _finding(place, function, "runs in a thread of its own", sure=sure)


def _functions(timeline: Timeline) -> dict[str, Function]:
    """The functions in which anything known happens, by name."""
    return {
        event.place.function.name: event.place.function
        for event in timeline.events
        if event.place.function is not None
    }


def _careless(timeline: Timeline, function: Function) -> bool:
    text = timeline.text(function.span)
    if "test" in function.roles or _CHOOSES.search(text):
        return False
    return bool(_ASKS.search(text)) and not _STARTED.search(timeline.source.text)


def _pool(timeline: Timeline, call: Call, tasks: list[Function]) -> Iterator[Finding]:
    """A pool that is kept: its threads could choose the device once."""
    here = call.place.function
    careless = [task for task in tasks if _careless(timeline, task)]
    if not careless or call.has("initializer") or here is None or here.name != "__init__":
        return
    yield _finding(call.span, careless[0], "runs in this pool's threads")


def _mixed(timeline: Timeline, function: Function) -> bool:
    """A stream of the current device, and tensors sent to a device that has a name."""
    text = timeline.text(function.span)
    return bool(_OWN_STREAM.search(text)) and "self.device" in text and "current_device" not in text


def _finding(span: Span, function: Function, how: str, *, sure: bool = False) -> Finding:
    return Finding(
        span,
        f"`{function.name}` uses the GPU and {how}, where GPU 0 is current. "
        "With several GPUs it may work on the wrong one, or open a context there. "
        "Call `set_device` at its start.",
        Confidence.LIKELY if sure else Confidence.POSSIBLE,
        Severity.WARNING,
        related=(Related(function.span, "what runs there"),) if span != function.span else (),
    )


def _header(timeline: Timeline, function: Function) -> Span:
    """The first line of a definition."""
    span = function.span
    line = timeline.source.text.splitlines()[span.line - 1]
    return Span(span.line, span.column, span.line, len(line))
