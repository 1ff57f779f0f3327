"""The composition root: creates, starts and ends all parts of the agent."""
