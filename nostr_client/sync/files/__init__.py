"""Move events between files and a store.

The package takes JSONL (plain or compressed), Parquet or SQLite files, and returns reports. Start
with `event_files`, which knows all forms. `jsonl` reads and writes lines, and `arrow_files` reads
with pyarrow.
"""
