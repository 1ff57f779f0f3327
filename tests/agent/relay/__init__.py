"""The local relay: its rules alone, over real sockets, and under load."""
