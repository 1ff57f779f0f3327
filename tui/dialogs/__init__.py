"""Questions and answers in front of a page."""
