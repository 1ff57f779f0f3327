"""Bring a store and relays to the same events by NIP-77, and count without downloads.

The package takes filters, relays and a store. It returns a `SyncReport`. Start with
`procedure.Syncer`, which works on many relays at once. `relayrun` works on one relay; `compare`
finds what one window of it lacks. `download_queue` gives each missing id to one relay. `mirror`
brings two relays together without a store. `files` moves events between files and a store.
"""
