"""The composition root: everything of the agent is put together here, started, and ended."""
