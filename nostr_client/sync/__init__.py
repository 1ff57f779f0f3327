"""Syncs by NIP-77: brings a store and relays to the same events, and counts without downloads.

Filters, relays and a store enter; a `SyncReport` leaves. Start with `procedure.Syncer`, which works
on many relays at once. `relayrun` works on one relay, `windows` chooses the windows to compare,
`initiator` is one session without I/O, and `download_queue` gives each missing id to one relay.
`mirror` brings two relays together without a store; `pair_session` is one comparison of them.
"""
