"""Compare one window of time with one relay, and find which events each side lacks.

The package takes a window, the local items and a relay. It returns the ids that differ, and the
windows that remain. Start with `reactions`, which reacts to each way a comparison can end.
`windows` cuts windows, `items` holds the local side, `session` runs NIP-77 by `initiator`. `pages`
reads a window by REQ, and `floor` finds events that a session left out. `pair_session` compares
two relays.
"""
