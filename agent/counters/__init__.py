"""How counters travel between agents: reading others, and publishing for others to read."""
