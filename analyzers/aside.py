"""Events of the timeline about what is done on a side stream, with one half of it out of sight."""

from __future__ import annotations

from analyzers.dryrun.values import Value
from analyzers.finding import Confidence, Span
from analyzers.records import record
from analyzers.timeline import Event


@record
class KeptAside(Event):
    """A tensor made on a side stream is put where code on other streams finds it."""

    value: Value
    made: Span  # the call that made it
    context: Span  # the with-statement that made the side stream current …
    stream: Span  # … and the expression in it that names the stream
    sure: Confidence
    waited: bool  # the side stream had waited before it made the tensor
    returned: bool  # to the caller


@record
class Refilled(Event):
    """A side stream that has waited for nobody overwrites memory from before."""

    value: Value
    context: Span  # the with-statement that made the side stream current …
    stream: Span  # … and the expression in it that names the stream
    sure: Confidence


@record
class ToldOwner(Event):
    """`record_stream` with the stream that the memory was allocated on."""

    value: Value
    made: Span


@record
class EnteredAside(Event):
    """A side stream becomes the current one for the body of a with-statement."""

    context: Span  # the with-statement, body included
    stream: Span  # the expression in it that names the stream
