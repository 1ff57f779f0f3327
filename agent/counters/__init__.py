"""Moves counters between agents: reads those of others, and publishes for others to read.

Messages of other agents, events and servers enter the local counters; local values leave as events
and pushes. Start with `sources` (what is read), `publisher` and `nats_push`; `links` has the state
of each.
"""
