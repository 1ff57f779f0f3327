"""The service: watches, sync, local relay, API, reindex."""
