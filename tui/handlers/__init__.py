"""What actions do: a handler takes the host and the words after the action's name.

Words enter; requests to the agent and changes of the page leave. Start with `watches`.
"""
