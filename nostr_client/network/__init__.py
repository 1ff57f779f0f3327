"""One relay or many over WebSockets: connections, subscriptions, pages, verified events.

Filters and events enter; verified events, counts and acknowledgements leave, with a status for
each relay. Start with `relay` (one), `pool` (many) and `ingest` (into the store).
"""
