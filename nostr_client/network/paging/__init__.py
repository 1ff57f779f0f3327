"""Read stored events page by page to a proven end.

The package takes filters and a budget. It returns events, and what the reading proved about missing
events. Start with `pager` (one filter, page by page). Then read `range_reader` (`Walk`, several
filters).
"""
