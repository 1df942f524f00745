"""Traces in, exact numbers out: what the GPU did, what overlapped, who waited for whom.

kineto.py  nsys.py     a file -> Trace (events.py), through collect.py
intervals.py           the exact algebra everything rests on
scope.py  quality.py   which part is measured; what the file can be trusted with
metrics.py             Trace -> DeviceMetrics, per device
report.py  rows.py     DeviceMetrics -> JSON, and the lines for people
"""
