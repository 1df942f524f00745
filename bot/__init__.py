"""The part that talks: command line, reports, GitHub."""
