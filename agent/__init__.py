"""The service: watches, syncs, local relay, API, alerts, bulk rebuild.

A configuration and requests of the API enter; numbers, events, alerts and metrics leave. Start with
`service` (what runs), `config` (what it runs) and `api.contract` (what may be asked).
"""
