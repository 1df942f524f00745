"""A stateful stand-in for GitHub: real git repositories behind the part of its API that we use.

It knows nothing of `bot`, so that it cannot agree with its mistakes.
"""
