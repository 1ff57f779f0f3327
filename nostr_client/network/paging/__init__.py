"""Reading stored events to a proven end: pages, ranges, and the order that a relay sends in."""
