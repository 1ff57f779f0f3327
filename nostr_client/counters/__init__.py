"""Counters that merge: exact sums of increments, by ADR-49 (JetStream Distributed Counter CRDT).

`subjects`, `rules`, `config` and `audit` are pure; `base` is the protocol; `sqlite`
(over `engine`) and `jetstream` are its backends; `ingest` counts what the event store takes in.
"""
