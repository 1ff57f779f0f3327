"""Reads stored events to a proven end: pages, ranges, and the order that a relay sends in.

Filters and a budget enter; events leave, and what the reading proved. Start with `pager` (one
filter, page by page), then `range_reader` (`Walk`: several filters).
"""
