"""Negentropy V1: find what two sets of events do not share, without sending either (NIP-77)."""
