"""Whether a wait that the code asks for is there for a reason."""

from __future__ import annotations

import re

from analyzers.places import Function, Place
from analyzers.timeline import EXPLICIT, Event, Launch, Timeline, Wait

# Functions whose purpose is the wait, or that end something.
_PURPOSE = re.compile(
    r"sync|wait|barrier|block|flush|fence|drain|join|tim(e|ing|er|eit)(?![a-z]*step)|bench|profil|"
    r"warm|measure|latency|throughput|elapsed|tic$|toc$|debug|check_cuda|close|del__|exit|"
    r"shutdown|finali[sz]e|destroy|free|release|teardown|cleanup|clean_up|reset|captur|graph|"
    r"ipc|offload|swap|checkpoint|save|load|init|setup|test|report|stats|memory|trace|log|main",
    re.IGNORECASE,
)
# Calls in the same function that need the device to be done, whatever the timeline can see.
_NEEDS = re.compile(
    r"mpi|nccl|gloo|nvshmem|barrier|isend|irecv|^send$|^recv$|all_?reduce|all_?gather|all_?to_?all|"
    r"broadcast|allreduce|sendrecv|exchange|elapsed|^time|perf_counter|clock|timer|profil|bench|"
    r"memory_|mem_get_info|max_memory|ctypes|ipc|share|mmap|execute_async|"
    r"callback|graph|capture|replay|save|^fork|launch_host_func|unregister|^close$|tic$|toc$|"
    r"nvtx|range_p|record|data_ptr|^fence|spawn|join|Popen|run_subprocess|as_ctypes|plot|imshow|"
    r"render|swap_buffers|unmap|^wait|is_set|put$|wait_for",
    re.IGNORECASE,
)
_LIBRARIES = frozenset({"mpi4py", "tensorrt", "OpenGL", "pyglet", "timeit", "ray", "nvshmem"})


def on_purpose(timeline: Timeline, wait: Wait) -> bool:
    """Whether something in sight wants the device to be done here."""
    function = wait.place.function
    if wait.place.stream or function is None:
        return True
    if function.ordering or function.reads_clock or timeline.imports & _LIBRARIES:
        return True
    name = f"{function.class_name}.{function.name}"
    return bool(_PURPOSE.search(name)) or any(map(_NEEDS.search, function.calls))


def foreign_work(timeline: Timeline, function: Function | None) -> bool:
    """Whether kernels are launched in the function that may use a stream of their own."""
    launches = (launch for launch in timeline.of(Launch) if launch.place.function == function)
    return any(map(_has_own_stream, launches))


def _has_own_stream(launch: Launch) -> bool:
    """A stream is given, or the data is that of a library with a current stream of its own."""
    library = launch.kernel.type.partition(".")[0]
    strangers = (t for t in launch.tensors if t.type.partition(".")[0] != library)
    return launch.stream is not None or next(strangers, None) is not None


def next_event(events: tuple[Event, ...], number: int) -> Event | None:
    """What follows event `number` in the next statement of the same block."""
    place = events[number].place
    for event in events[number + 1 :]:
        if _follows(place, event.place):
            if isinstance(event, Wait) and event.reason not in EXPLICIT:
                return event
        elif event.place.statement != place.statement:
            return None
    return None


def _follows(place: Place, later: Place) -> bool:
    return (
        later.block == place.block
        and later.index == place.index + 1
        and later.function == place.function
    )
