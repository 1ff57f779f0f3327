"""Negentropy V1: finds the events that two sets do not share, without sending either (NIP-77).

Sealed sets and messages enter; messages and ids (`have`, `need`) leave. Start with `reconcile`
(both sides of a session), then `storage` (the sets). `bridge` compares two relays without a set
here. Pure: no I/O and no clock.
"""
