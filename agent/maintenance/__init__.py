"""Maintains the store: retention, derived tables, backups, and events in archives.

A store and rules enter; a smaller store, copies and archives leave. Start with `retention` or
`backup`; each module stands alone.
"""
