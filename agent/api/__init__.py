"""The agent's HTTP interface: its types, its routes, the server, and the typed client."""
