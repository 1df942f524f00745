"""Does, when imported, what the first analysis of a process takes long for: reading its modules.

Children forked after it start at once, 15 ms for a small file instead of 330.
"""

from analyzers.analysis import AnalysisConfig
from bot.examine import Job, examine

_SAMPLE = b"""\
import torch


def first(n):
    return torch.zeros(n).cuda()
"""
found = examine(Job("sample.py", AnalysisConfig(), _SAMPLE))
