"""The index of a store: tables in `index.db` that are derived from the events.

Saved and removed events enter; counts, registers and daily numbers of targets leave. Start with
`schema` (the tables) and `keeper` (when they change). `update` changes them, `hot` and `read`
answer from them, and `verify` compares them with the events.
"""
