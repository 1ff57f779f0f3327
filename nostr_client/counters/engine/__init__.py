"""Implement the embedded counters as functions over one SQLite connection, in its transaction.

Input are messages. Output are stored messages, values and source maps. Start with `session`, then
read `publish`.
"""
