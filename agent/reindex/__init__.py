"""Bulk rebuild of everything that is derived from events, by Spark or by one plain process."""
