"""Commits in, measurements out: traces, statistics, sandboxed benchmarks."""
