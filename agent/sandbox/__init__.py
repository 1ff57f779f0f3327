"""An agent over local relays and made-up people who go on following and reacting.

`python -m agent.sandbox` prints where the agent is and runs until its stdin or SIGTERM ends it.
"""
