"""Parts that pages are made of.

Rows, columns and points enter; lines of text leave. Start with `grid` (tables) and `plot`.
"""
