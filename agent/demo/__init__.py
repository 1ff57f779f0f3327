"""The demonstration: made-up people, local relays of every kind, and an agent that watches them.

Enters: a time, at which the made-up week ends. Leaves: numbers with the truth beside them.
Start reading at `world` (the people); `running` starts everything, `tour` shows the numbers.
"""
