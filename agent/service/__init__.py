"""The composition root: creates, starts and ends all parts of the agent.

A checked configuration enters; a running agent leaves, until a stop is requested. Start with `run`
(open, serve, drain, close), then `agent` and `parts`; `backend` answers the API. `tasks` is
the periodic work, `process` what the agent shares with the machine.
"""
