"""The formats of Nostr: events, filters, keys, identifiers, messages, zaps. Pure.

Text and bytes enter; checked values leave. Start with `event`, `filters` and `messages`.
"""
