"""Maintains the store: retention, derived tables, backups, and events in archives."""
