"""The service: watches, syncs, local relay, API, alerts, bulk rebuild."""
