"""Sync by NIP-77: a store and relays brought to the same events, and counts without downloads.

`procedure.Syncer` does many relays at once; `relayrun` is one of them, `windows` and `schedule` say
what is compared when, `talk` is one session without I/O, `desk` says who downloads what. `mirror`
brings two relays together without a store, `crossing` being one comparison of them.
"""
