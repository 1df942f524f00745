"""The founding example as modelled programs: a loop over images, a tempting rewrite, and a ring.

Every image is normalised by one kernel that reads and writes it once. The rewrite is the one that
promises 68 % overlap: it sizes its buffer in bytes instead of elements, uploads uninitialised
memory, copies everything before the first kernel and waits for each image. It runs at all only
for 8-bit images; the numbers are for those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from gpu_runner.model import Event, ModelGpu
from gpu_runner.model_trace import LABEL, summary
from gpu_runner.recording import Hardware, Memory, Recording, Work
from gpu_runner.records import TraceSummary

KERNEL = "normalize_kernel"
PROMISED = 68.0  # percent of overlap the rewrite is said to reach
RING = 3


@dataclass(frozen=True)
class Images:
    """The batch: 8-bit images that are normalised as float32."""

    count: int = 8
    elements: int = 1024 * 1024 * 3

    @property
    def size(self) -> int:
        """Bytes of one image as float32."""
        return 4 * self.elements


Program = Callable[[ModelGpu, Images], None]


def per_image(gpu: ModelGpu, images: Images) -> None:
    """One image at a time on the default stream, from and to pageable memory."""
    for _ in range(images.count):
        gpu.copy(Work.H2D, images.size, Memory.PAGEABLE, wait=True)
        gpu.launch(KERNEL, gpu.hardware.traffic_ns(2 * images.size))
        gpu.synchronize()
        gpu.copy(Work.D2H, images.size, Memory.PAGEABLE, wait=True)


def rewrite(gpu: ModelGpu, images: Images) -> None:
    """The tempting rewrite: one big copy twice over, a stream per image, a wait per image."""
    whole = images.count * images.size  # its bytes taken for elements: right for 8-bit images only
    gpu.copy(Work.H2D, whole, Memory.PAGEABLE, wait=True)  # to_device(np.empty(…)): garbage
    gpu.copy(Work.H2D, whole, Memory.PAGEABLE, wait=True)
    streams = [gpu.stream() for _ in range(images.count)]
    for stream in streams:
        gpu.launch(KERNEL, gpu.hardware.traffic_ns(2 * images.size), stream)
    for stream in streams:
        gpu.copy(Work.D2H, images.size, Memory.PAGEABLE, stream)
        gpu.stream_synchronize(stream)


def ring(gpu: ModelGpu, images: Images, collect_ns: int = 0) -> None:
    """A ring of three streams, each with its own pinned buffers, reused once they are read.

    `collect_ns` is the host's time to copy one result out of its pinned buffer.
    """
    streams = [gpu.stream(blocking=False) for _ in range(RING)]
    waiting: list[Event] = []
    for number in range(images.count):
        if number >= RING:  # the slot's result must be read before its buffers are written again
            gpu.event_synchronize(waiting[number - RING])
            gpu.host_work(collect_ns)
        stream = streams[number % RING]
        gpu.copy(Work.H2D, images.size, Memory.PINNED, stream)
        gpu.launch(KERNEL, gpu.hardware.traffic_ns(2 * images.size), stream)
        gpu.copy(Work.D2H, images.size, Memory.PINNED, stream)
        waiting.append(gpu.record(stream))
    for event in waiting[-RING:]:
        gpu.event_synchronize(event)
        gpu.host_work(collect_ns)


def ring_copied_out(gpu: ModelGpu, images: Images) -> None:
    """The ring, with the host copying every result out of pinned memory at 10 GB/s."""
    ring(gpu, images, collect_ns=round(images.size / 10))


PROGRAMS: dict[str, tuple[str, Program]] = {
    "per-image": ("one image at a time", per_image),
    "rewrite": ("the tempting rewrite", rewrite),
    "ring": (f"pinned ring of {RING} streams", ring),
    "ring-copied-out": ("the ring, results copied out", ring_copied_out),
}


@dataclass(frozen=True)
class Modelled:
    """One program's run on the modelled machine and what is true of it."""

    name: str
    title: str
    recording: Recording
    summary: TraceSummary


@dataclass(frozen=True)
class Setting:
    """The machine and the batch that are modelled."""

    hardware: Hardware = field(default_factory=Hardware)
    images: Images = field(default_factory=Images)


def run(name: str, setting: Setting | None = None) -> Modelled:
    """The named program, run on the model."""
    setting = setting or Setting()
    title, program = PROGRAMS[name]
    gpu = ModelGpu(setting.hardware)
    with gpu.region():
        program(gpu, setting.images)
    recording = gpu.finish()
    return Modelled(name, title, recording, summary(recording))


NO_METRICS = (
    *("variant", "traced_pass", "complete", "wall_ratio"),
    *("timeline", "length_ns", "lanes"),
)


def as_json(setting: Setting | None = None) -> dict[str, Any]:
    """All programs and the assumptions behind them, ready for `json.dump`."""
    setting = setting or Setting()
    programs: list[dict[str, Any]] = []
    for one in (run(name, setting) for name in PROGRAMS):
        metrics = asdict(one.summary)
        for meaningless in NO_METRICS:
            del metrics[meaningless]
        programs.append({"name": one.name, "title": one.title, "metrics": metrics})
    return {
        "version": 1,
        "basis": "modelled",
        "hardware": asdict(setting.hardware),
        "images": asdict(setting.images),
        "overlap_bound_percent": bound_percent(setting),
        "programs": programs,
    }


def text(setting: Setting | None = None) -> str:
    """All programs side by side, and why the promised overlap cannot be."""
    setting = setting or Setting()
    rows = [run(name, setting) for name in PROGRAMS]
    head = (
        f"{'modelled program':30s} {'wall':>9s} {'overlap':>8s} {'possible':>8s} {'duplex':>7s} "
        f"{'exposed copy':>12s} {'host sync':>9s} {'pinned':>6s}"
    )
    return "\n".join([_assumptions(setting), "", head, *map(_row, rows), "", _why(setting), ""])


def _assumptions(setting: Setting) -> str:
    machine, images = setting.hardware, setting.images
    return (
        f"{LABEL.capitalize()}: {images.count} images of {images.size / 1e6:.1f} MB as float32; "
        f"bus {machine.pinned_gb_per_s:g} GB/s pinned, {machine.pageable_gb_per_s:g} GB/s "
        f"pageable;\ndevice memory {machine.memory_gb_per_s:g} GB/s; "
        f"{machine.call_ns / 1000:g} us per call. Converting images on the host is not counted."
    )


def _row(one: Modelled) -> str:
    metrics = one.summary
    return (
        f"{one.title:30s} {metrics.region_us / 1000:6.2f} ms {_share(metrics.overlap_percent)} "
        f"{_share(metrics.overlap_ceiling_percent)} {_share(metrics.duplex_percent, 1):>7s} "
        f"{metrics.exposed_copy_us / 1000:9.2f} ms {metrics.host_sync_us / 1000:6.2f} ms "
        f"{_share(100 * (metrics.pinned_share or 0), 0, 6)}"
    )


def _share(percent: float | None, decimals: int = 2, width: int = 8) -> str:
    return f"{'–':>{width}s}" if percent is None else f"{percent:{width - 2}.{decimals}f} %"


def bound_percent(setting: Setting) -> float:
    """The most overlap any arrangement of pinned copies can reach for this kernel.

    Copy time is shortest when both directions run at once all the time; overlap is at most the
    kernel's time over that.
    """
    machine, size = setting.hardware, setting.images.size
    return 100 * min(1.0, machine.traffic_ns(2 * size) / machine.copy_ns(size, Memory.PINNED))


def _why(setting: Setting) -> str:
    machine, size = setting.hardware, setting.images.size
    kernel, copy = machine.traffic_ns(2 * size) / 1000, machine.copy_ns(size, Memory.PINNED) / 1000
    bound = bound_percent(setting)
    verdict = "impossible here" if bound < PROMISED else "possible here"
    return (
        f"Why {PROMISED:.0f} % overlap is {verdict}: the kernel needs {kernel:.1f} us for an image "
        f"that takes {copy:.1f} us\neach way on the bus. Kernels can hide copies only while they "
        f"run: at most {bound:.1f} % of the copy time\nhowever the streams are arranged. What "
        "helps is pinned memory, and copying both ways at once."
    )
