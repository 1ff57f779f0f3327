"""The local relay: serves the store over WebSocket by NIP-01 and the NIPs around it.

`session` decides (no I/O), `jobs` asks the store, `server` owns the sockets.
"""
