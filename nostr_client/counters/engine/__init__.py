"""The embedded counters: functions over one SQLite connection, inside its transaction."""
