"""The terminal application: the agent's numbers, live, with actions on them.

The agent's API and event stream and the user's keys enter; a screen and requests to the API leave.
Start with `actions` (the table of all actions), then `pages` and `app`. `model` holds the reports
of the agent, and `link` is the connection to it.
"""
