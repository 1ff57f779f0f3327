"""The embedded counters: functions over one SQLite connection, inside its transaction.

Messages enter; stored messages, values and source maps leave. Start with `session`, then `publish`.
"""
