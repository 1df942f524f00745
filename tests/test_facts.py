"""What is known of the libraries: complete, in order, with sources, and right where it matters."""

from __future__ import annotations

import ast
import math
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from analyzers.knowledge import Fact, load_facts

FOLDER = Path(__file__).parents[1] / "analyzers" / "facts"
LIBRARIES = sorted(p for p in FOLDER.glob("*.toml") if p.name not in ("gpus.toml", "names.toml"))
every_library = pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.stem)

RESULTS = {"receiver", "first", "element", "arguments", "same", "list", "pairs", "mapping"}
RESULTS |= {"number", "text", "none", "function"}
WORDS = {
    "device": {"host", "gpu", "receiver", "inputs", "argument"},
    "default_device": {"host", "gpu", "receiver", "inputs"},
    "moves": {"gpu", "host", "argument"},
    "waits": {
        "device",
        "stream",
        "event",
        "condition",
        "scalar",
        "copy",
        "shape",
        "format",
        "upload",
    },
    "filled": {"undefined", "constant", "random", "range"},
    "graph": {"cut"},
    "strided": {"yes", "no"},
    "stream": {"argument", "default"},
    "kind": {"tensor", "module", "place", "stream", "event", "loader", "optimizer", "kernel"}
    | {"instance"},
}
EFFECTS = {
    "add_into", "concatenate", "round_down",
    "annotate", "allocate", "append", "array_module", "auto_synchronize", "autocast",
    "autograd_function", "autotune", "backward", "barrier", "bind_stream", "capture",
    "capture_begin", "capture_end", "cast", "ceil_division", "clock", "collective",
    "collective_wait", "context",
    "copy_into", "cuda_init", "current_device", "current_stream", "dataset", "debug_mode",
    "decorator",
    "default_stream", "defer_cleanup", "device_atomic", "device_code", "device_guard",
    "device_module",
    "device_load", "device_store", "dimension", "elapsed", "elementwise_kernel", "empty_cache",
    "endless",
    "enumerate", "eval_mode", "exit", "event_record", "event_wait", "extremum", "file", "filter",
    "forall", "foreign", "free", "garbage", "getattr", "grad_on", "handoff", "host_callback",
    "host_jit", "is_available", "jit", "kernel_argument", "kernel_decorator", "kernel_reduce",
    "launch", "launch_config", "load", "managed", "map", "memory_query", "metric", "no_grad",
    "optimizer_step", "out_of_memory", "parameter", "partial", "pinned_context", "power_of_two",
    "prepare", "print", "process", "process_group", "profiler", "progress", "query",
    "random_seed", "range",
    "raw_handle",
    "raw_kernel", "raw_module", "reads_back", "record_stream", "register_buffer", "replay",
    "save", "set_device",
    "set_default_device", "set_stream", "setattr", "shared_array", "sleep", "status",
    "stream_context", "stream_record", "super", "thread", "thread_index", "thread_range", "total",
    "train_mode", "transform", "vectorize", "wait_event", "wait_stream", "zero_grad", "zip",
}  # fmt: skip


def tables(path: Path) -> dict[str, dict[str, Any]]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: body for name, body in data.items() if name not in ("library", "names")}


def test_every_file_loads_and_no_library_is_missing() -> None:
    facts = load_facts()
    assert {"torch", "numba", "cupy", "triton", "cuda", "pycuda", "jax", "warp"} <= facts.modules
    assert len(facts.table) == sum(len(tables(path)) for path in LIBRARIES)


@every_library
def test_tables_stand_in_the_order_of_their_names(path: Path) -> None:
    assert list(tables(path)) == sorted(tables(path))


@every_library
def test_every_table_names_its_own_source(path: Path) -> None:
    unsourced = [
        name
        for name, body in tables(path).items()
        if not str(body.get("source", "")).startswith(("https://", "source read: "))
    ]
    assert unsourced == []


@every_library
def test_every_word_is_one_that_the_dry_run_knows(path: Path) -> None:
    facts = load_facts()
    strange = [
        f"{name}: {key} = {getattr(facts.table[name], key)!r}"
        for name in tables(path)
        for key, words in WORDS.items()
        if getattr(facts.table[name], key) not in {*words, ""}
    ]
    assert strange == []


@every_library
def test_every_effect_is_listed_here(path: Path) -> None:
    facts = load_facts()
    assert {facts.table[name].effect for name in tables(path)} <= {*EFFECTS, ""}


@every_library
def test_every_class_that_a_result_has_is_described(path: Path) -> None:
    facts = load_facts()
    strange: list[str] = []
    for name in tables(path):
        fact = facts.table[name]
        for word in (fact.gives, fact.element, fact.is_a):
            described = facts.find(word) if word and word not in RESULTS else None
            if word and word not in RESULTS and (described is None or not described.kind):
                strange.append(f"{name} gives {word}")
    assert strange == []


@every_library
def test_a_conditional_wait_names_a_wait_and_a_move_names_its_direction(path: Path) -> None:
    facts = load_facts()
    for name in tables(path):
        fact = facts.table[name]
        assert fact.waits or not (fact.waits_if or fact.waits_unless), name
        copies = fact.moves or fact.effect == "copy_into"
        assert copies or fact.kind == "stream" or not fact.async_by, name
        assert fact.dtype == "argument" or not fact.default_dtype, name
        assert fact.fresh or not fact.filled, name


def test_a_library_is_triggered_by_the_words_that_import_it() -> None:
    triggers = load_facts().triggers
    for line in (
        b"import torch", b"from numba import cuda", b"import cupy as cp", b"import pycuda.driver",
        b"import triton", b"import jax.numpy as jnp", b"from cuda.core import Device",
        b"from cuda import cudart", b"import warp as wp",
    ):  # fmt: skip
        assert triggers.search(line), line
    for line in (b"import numpy as np", b"import cv2", b"print('warp drive')"):
        assert not triggers.search(line), line


def test_names_are_lower_case_and_stand_in_one_list_once() -> None:
    for key, words in load_facts().names.items():
        assert len(words) == len(set(words)), key
        if not key.endswith(("_class", "_marks")):
            assert [word for word in words if word != word.lower()] == [], key


# Name looked up, what must be known of it ("key=value"; "-key" means: unset).
LOOKUPS = [
    ("torch.Tensor.item", "waits=scalar gives=number graph=cut -metadata"),
    ("torch.Tensor.tolist", "waits=copy gives=list"),
    ("torch.Tensor.cpu", "moves=host waits=copy gives=torch.Tensor -async_by"),
    ("torch.Tensor.cuda", "moves=gpu waits=copy async_by=non_blocking"),
    ("torch.Tensor.to", "moves=argument async_by=non_blocking"),
    ("torch.Tensor.numpy", "gives=numpy.ndarray device=host view=True -waits"),
    ("torch.Tensor.copy_", "effect=copy_into async_by=non_blocking into=receiver inplace=True"),
    ("torch.Tensor.pin_memory", "pins=always device=host"),
    ("torch.Tensor.shape", "metadata=True property=True"),
    ("torch.Tensor.size", "metadata=True -property"),
    ("torch.Tensor.numel", "metadata=True gives=number -waits"),
    ("torch.Tensor.is_cuda", "metadata=True property=True -waits"),
    ("torch.Tensor.nbytes", "bytes=True property=True"),
    ("torch.Tensor.nonzero", "waits=shape"),
    ("torch.nonzero", "waits=shape graph=cut"),
    ("torch.masked_select", "waits=shape"),
    ("torch.unique", "waits=shape"),
    ("torch.bincount", "waits=shape"),
    ("torch.where", "waits=shape"),
    ("torch.repeat_interleave", "waits=shape"),
    ("torch.nn.functional.one_hot", "waits=shape"),
    ("torch.equal", "waits=condition"),
    ("torch.Tensor.sum", "reduces=True work=True -waits"),
    ("torch.Tensor.argmax", "reduces=True dtype=int64"),
    ("torch.Tensor.detach", "view=True graph=cut"),
    ("torch.Tensor.clone", "fresh=True work=True"),
    ("torch.Tensor.transpose", "view=True strided=yes"),
    ("torch.Tensor.contiguous", "strided=no"),
    ("torch.Tensor.add_", "inplace=True gives=receiver work=True"),
    ("torch.Tensor.masked_fill_", "inplace=True"),
    ("torch.Tensor.float", "dtype=float32"),
    ("torch.Tensor.backward", "effect=backward work=True"),
    ("torch.Tensor.record_stream", "effect=record_stream"),
    ("torch.Tensor.some_method_of_next_year", "gives=torch.Tensor device=receiver work=True"),
    ("torch.zeros", "fresh=True filled=constant device=argument default_dtype=float32"),
    ("torch.empty", "fresh=True filled=undefined pins=pin_memory"),
    ("torch.randperm", "filled=random default_dtype=int64 device=argument"),
    ("torch.zeros_like", "default_device=inputs filled=constant"),
    ("torch.tensor", "upload=True waits=upload device=argument"),
    ("torch.as_tensor", "upload=True default_device=inputs"),
    ("torch.from_numpy", "view=True device=host"),
    ("torch.sin", "gives=torch.Tensor device=inputs work=True"),
    ("torch.is_tensor", "gives=number -work"),
    ("torch.float16", "dtype=float16 property=True"),
    ("torch.cuda.synchronize", "waits=device"),
    ("torch.cuda.Stream", "kind=stream blocking=False"),
    ("torch.cuda.Stream.wait_stream", "effect=wait_stream -waits"),
    ("torch.cuda.Stream.synchronize", "waits=stream"),
    ("torch.cuda.Event.elapsed_time", "effect=elapsed"),
    ("torch.cuda.stream", "effect=stream_context"),
    ("torch.cuda.empty_cache", "effect=empty_cache"),
    ("torch.cuda.amp.autocast", "effect=autocast"),
    ("torch.no_grad", "effect=no_grad"),
    ("torch.device", "kind=place -effect"),
    ("torch.nn.Linear", "gives=torch.nn.Module kind=module"),
    ("torch.nn.CrossEntropyLoss", "gives=torch.nn.Module scalar=True"),
    ("torch.nn.functional.cross_entropy", "scalar=True work=True"),
    ("torch.nn.functional.gelu", "gives=torch.Tensor device=inputs"),
    ("torch.nn.parallel.DistributedDataParallel", "gives=first"),
    ("torch.nn.utils.clip_grad_norm_", "scalar=True waits=scalar"),
    ("torch.optim.AdamW", "gives=torch.optim.Optimizer"),
    ("torch.utils.data.DataLoader", "kind=loader device=host pins=pin_memory"),
    ("torch.utils.data.Dataset", "effect=dataset"),
    ("torch.compile", "gives=first effect=jit"),
    ("torch.distributed.all_reduce", "work=True -waits"),
    ("torch.accelerator.synchronize", "waits=device"),
    ("torch.npu.current_device", "-gives -work"),
    ("transformers.AutoModelForCausalLM.from_pretrained", "gives=torch.nn.Module"),
    ("transformers.AutoTokenizer.from_pretrained", "gives=transformers.Tokenizer"),
    ("accelerate.Accelerator.backward", "effect=backward"),
    ("accelerate.Accelerator.device", "kind=place device=gpu property=True"),
    ("torchvision.ops.nms", "waits=shape"),
    ("torchvision.models.resnet50", "gives=torch.nn.Module"),
    ("torchmetrics.Accuracy", "effect=metric kind=module"),
    ("flash_attn.flash_attn_func", "gives=torch.Tensor work=True"),
    ("numpy.zeros", "device=host filled=constant default_dtype=float64"),
    ("numpy.sin", "device=host gives=numpy.ndarray"),
    ("numpy.asarray", "waits=copy device=host"),
    ("numpy.float32", "dtype=float32"),
    ("cv2.imread", "dtype=uint8 device=host"),
    ("builtins.print", "waits=format effect=print"),
    ("builtins.float", "waits=scalar gives=number"),
    ("builtins.list.append", "effect=append"),
    ("time.perf_counter", "effect=clock"),
    ("time.time", "effect=clock"),
    ("math.sqrt", "gives=number"),
    ("wandb.log", "waits=format"),
    ("cupy.zeros", "device=gpu default_dtype=float64 fresh=True"),
    ("cupy.asarray", "upload=True device=gpu -waits"),
    ("cupy.asnumpy", "moves=host waits=copy async_by=!blocking"),
    ("cupy.ndarray.get", "moves=host waits=copy into=out"),
    ("cupy.ndarray.item", "waits=scalar"),
    ("cupy.nonzero", "waits=shape"),
    ("cupy.cuda.Stream", "kind=stream blocking=True"),
    ("cupy.cuda.Stream.null.synchronize", "waits=stream"),
    ("cupy.RawKernel", "kind=kernel effect=raw_kernel"),
    ("cupyx.empty_pinned", "pins=always device=host"),
    ("cupyx.profiler.benchmark", "effect=profiler"),
    ("numba.cuda.jit", "effect=kernel_decorator stream=argument"),
    ("numba.cuda.to_device", "moves=gpu async_by=stream stream=argument"),
    ("numba.cuda.device_array", "fresh=True filled=undefined default_dtype=float64"),
    ("numba.cuda.DeviceNDArray.copy_to_host", "moves=host waits=copy into=ary async_by=stream"),
    ("numba.cuda.stream", "kind=stream blocking=True"),
    ("numba.cuda.pinned_array", "pins=always"),
    ("numba.cuda.synchronize", "waits=device"),
    ("triton.jit", "effect=kernel_decorator -stream"),
    ("triton.testing.do_bench", "effect=profiler"),
    ("triton.language.atomic_add", "effect=device_atomic"),
    ("cuda.cudart.cudaDeviceSynchronize", "waits=device"),
    ("cuda.bindings.runtime.cudaMalloc", "bytes=True effect=allocate"),
    ("cuda.core.Device.create_stream", "blocking=False"),
    ("pycuda.driver.mem_alloc", "bytes=True device=gpu"),
    ("pycuda.gpuarray.to_gpu", "moves=gpu waits=upload"),
    ("pycuda.driver.Context.synchronize", "waits=device"),
    ("jax.Array.block_until_ready", "waits=stream gives=receiver"),
    ("jax.numpy.dot", "gives=jax.Array work=True"),
    ("jax.device_get", "moves=host waits=copy"),
    ("warp.synchronize", "waits=device"),
    ("warp.array.numpy", "moves=host waits=copy"),
]


@pytest.mark.parametrize(("name", "expected"), LOOKUPS, ids=[name for name, _ in LOOKUPS])
def test_an_api_is_known_as_it_behaves(name: str, expected: str) -> None:
    fact = load_facts().find(name)
    assert fact is not None
    defaults = {f.name: f.default for f in fields(Fact)}
    for word in expected.split():
        if word.startswith("-"):
            assert getattr(fact, word[1:]) == defaults[word[1:]], word
        else:
            key, _, value = word.partition("=")
            assert str(getattr(fact, key)) == value, word


@pytest.mark.parametrize(
    ("cls", "method", "name"),
    [
        pytest.param("torch.nn.Module", "no_such", "", id="a network does not guess"),
        pytest.param("torch.Tensor", "frobnicate", "torch.Tensor.*", id="a tensor does"),
        pytest.param("cupy.cuda.ExternalStream", "synchronize", "cupy.cuda.Stream.synchronize",
                     id="a class inherits"),
        pytest.param("numba.cuda.jit", "forall", "numba.cuda.Kernel.forall", id="of a kernel"),
    ],
)  # fmt: skip
def test_a_method_is_found_in_its_class_or_above(cls: str, method: str, name: str) -> None:
    fact = load_facts().method(cls, method)
    assert (fact.name if fact is not None else "") == name


GPUS = tomllib.loads((FOLDER / "gpus.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list(GPUS["gpu"]))
def test_every_cell_of_a_product_says_where_it_comes_from(name: str) -> None:
    product = GPUS["gpu"][name]
    cells = set(product) - {"capability", "aliases", "provenance"}
    assert set(product["provenance"]) == cells
    assert set(product["provenance"].values()) <= set(GPUS["provenance"])
    assert product["capability"] in GPUS["limits"]
    assert product["host_link"] in GPUS["host_link_gb_s"]


def occupancy(capability: str, threads: int) -> tuple[int, int]:
    """Percent and resident blocks by the limits of threads and blocks alone."""
    limits = GPUS["limits"][capability]
    warps = math.ceil(threads / GPUS["common"]["warp"])
    blocks = min(limits["threads_per_sm"] // (32 * warps), limits["blocks_per_sm"])
    return round(100 * blocks * warps / limits["warps_per_sm"]), blocks


@pytest.mark.parametrize(
    ("capability", "threads", "expected"),
    [
        pytest.param("9.0", 32, (50, 32), id="small blocks run into the limit of blocks"),
        pytest.param("8.6", 64, (67, 16), id="two warps on 8.6"),
        pytest.param("7.5", 768, (75, 1), id="one block only on 7.5"),
        pytest.param("8.9", 1024, (67, 1), id="the largest block on 8.9"),
        pytest.param("8.0", 1024, (100, 2), id="the largest block on 8.0"),
        pytest.param("12.0", 640, (83, 2), id="an odd size on 12.0"),
    ],
)
def test_the_limits_give_the_known_occupancy(
    capability: str, threads: int, expected: tuple[int, int]
) -> None:
    assert occupancy(capability, threads) == expected


def test_the_portable_block_sizes_fill_every_capability() -> None:
    for capability in GPUS["limits"]:
        for threads in GPUS["common"]["portable_block_sizes"]:
            assert occupancy(capability, threads)[0] == 100, capability


def test_the_dry_run_names_no_library_and_no_word_of_the_order_of_device_work() -> None:
    names = load_facts().names
    roots = {name.partition(".")[0] for name in load_facts().table} - {"builtins", "warp"}
    words = {f"{root}." for root in roots}
    kept = {"async_op", "non_blocking", "pin_memory"}  # words that whole files are searched for
    whole = {word for word in names["ordering_words"] if "_" in word} - kept
    strange: list[str] = []
    for path in sorted((FOLDER.parent / "dryrun").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            text = node.value
            plain = " " not in text and len(text) < 60
            if plain and (text.startswith(tuple(words)) or text in whole - EFFECTS):
                strange.append(f"{path.name}:{node.lineno}: {text}")
    assert strange == []
