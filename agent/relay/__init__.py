"""The local relay: serves the store over WebSocket by NIP-01 and the NIPs around it.

Frames of clients enter; events, counts and OKs leave. Start with `server`, which owns the sockets;
`session` decides (no I/O), and `jobs` asks the store.
"""
