"""Bring a store and relays to the same events by NIP-77, and count without downloads.

The package takes filters, relays and a store. It returns a `SyncReport`. Start with
`procedure.Syncer`, which works on many relays at once. `relayrun` works on one relay, and `windows`
chooses the windows to compare. `initiator` is one session without I/O. `download_queue` gives each
missing id to one relay. `mirror` brings two relays together without a store, and `pair_session` is
one comparison of them.
"""
