"""Moves counters between agents: reads those of others, and publishes for others to read."""
