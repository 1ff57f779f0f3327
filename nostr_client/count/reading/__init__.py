"""Read what one relay has for a question, if the relay cannot count it exactly.

The package takes a query, the known events and a budget. It returns the events or ids of one
relay, and what they prove. Start with `events`, which pages; `rounds` decides what to read.
`listing` and `comparing` use NIP-77. `seen` and `unfollowed` decide which events do not count.
"""
