"""Text in, findings out: no I/O, no GitHub, no GPU."""
