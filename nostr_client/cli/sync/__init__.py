"""`nostr-client sync`, `mirror` and `coverage`: compare relays, and move events.

Start with `commands`. `kept` has the syncs of an agent, `coverage` shows which relay has what, and
`coverage_kept` the newest coverages of an agent.
"""
