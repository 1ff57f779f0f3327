"""One SQLite file: connections, one writer thread, readers, schemas and errors.

Functions over a connection enter; their results leave. Start with `database`.
"""
