"""`nostr-client counter`: counters of a store, an agent or a nats-server.

Start with `commands`. `backend` chooses where the counters are, `streams` has the commands of
streams and their sources.
"""
