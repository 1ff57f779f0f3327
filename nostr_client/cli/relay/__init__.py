"""`nostr-client relay`: what relays say of themselves, what they do, and which to ask first.

Start with `commands`. `check` tests a relay against the NIPs, `rank` orders relays by evidence.
"""
