"""Reads, when imported, all that an analysis needs: children forked after it start at once."""

import analyzers.engine
from analyzers.rule import all_rules
from bot.examine import EXAMINE

analyzers.engine.load_facts()
all_rules()
assert EXAMINE  # what the children run
