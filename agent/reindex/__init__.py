"""Rebuilds in bulk all that is derived from events, by Spark or by one plain process."""
