"""The agent's HTTP interface: its types, its routes, the server, and the typed client.

HTTP requests enter; JSON, an event stream and metrics leave. Start with `contract`, which declares
each request once, then `schema` (the types), `server` and `client`.
"""
