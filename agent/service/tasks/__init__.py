"""The periodic work of the agent: tasks that its worker runs when they are due.

The running parts and the configuration enter; numbers for the API leave. Start with `ticker`, the
smallest.
"""
