"""Implement the embedded counters as functions over one SQLite connection, in its transaction.

The package takes messages. It returns stored messages, values and source maps. Start with
`session`, then read `publish`.
"""
