"""What the agent shares with the machine: keys, tokens, the run file and the supervisor.

Sections of the configuration enter; signers, tokens and files leave. Start with `secrets`.
"""
