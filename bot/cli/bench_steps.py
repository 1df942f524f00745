"""`hostside bench gate` and `hostside bench post`: `/gpu-bench` in workflows, without a server."""

from __future__ import annotations

import os
import sys

GATE_HELP = "decide whether a comment may start a benchmark (a step of gpu-bench-comment.yml)"
POST_HELP = "show a benchmark's result on its pull request (a step of gpu-bench-comment.yml)"


def run(step: str) -> int:
    """0; what became of it stands in the step's outputs and on the pull request."""
    from bot import bench_gate, bench_post

    do = bench_gate.gate if step == "gate" else bench_post.post
    print(f"hostside: {do(os.environ)}", file=sys.stderr)
    return 0
