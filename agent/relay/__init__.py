"""The local relay: the store, spoken to over WebSocket by NIP-01 and the NIPs around it.

`session` decides (no I/O), `jobs` asks the store, `server` owns the sockets.
"""
