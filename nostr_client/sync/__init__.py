"""Sync by NIP-77: a store and relays brought to the same events, and counts without downloads.

Filters, relays and a store enter, a `SyncReport` leaves. `procedure.Syncer` does many relays at
once; `relayrun` is one of them, `windows` says what is compared when, `initiator` is one session
without I/O, `download_queue` says who downloads what. `mirror` brings two relays together without
a store; `pair_session` is one comparison of them.
"""
