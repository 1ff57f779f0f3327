"""Rebuilds in bulk all data that is derived from events, by Spark or by one plain process.

A store or archives enter; an index file, tables in Parquet and a report leave. Start with `run`
(one rebuild, for the owner of the store), then `child` (the process) and `reference` (the tables).
"""
