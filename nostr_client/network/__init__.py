"""Talk to one relay or many over WebSockets: connections, subscriptions, pages, verified events.

The package takes filters and events. It returns verified events, counts and acknowledgements, with
a status for each relay. Start with `relay` (one relay), `pool` (many relays) and `ingest` (saving
into the store).
"""
