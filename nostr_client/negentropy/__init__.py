"""Find the events that two sets do not share, without sending either set (negentropy V1, NIP-77).

The package takes sealed sets and messages. It returns messages and ids (`have`, `need`). Start with
`reconcile` (both sides of a session), then read `storage` (the sets). `bridge` compares two relays
without a local set. Pure: no I/O and no clock.
"""
