"""The event store: rules, schema, queries and the SQLite file under them.

Verified events and filters enter; outcomes, events and counts leave. Start with `base` (the
protocol) and `rules` (which events are stored), then `sqlite` (the store), `save` and `select`.
"""
