"""Ask only as many relays as a number needs (`--enough`).

Earlier claims enter; an order of relays, and a bound for those not asked, leave. Start with
`batches`, which asks; `bounds` decides when enough were asked.
"""
