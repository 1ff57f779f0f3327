"""`nostr-client watch` and `digest`: keep watches, run them, and read their numbers.

`commands` has the commands of a watch. `file` reads and changes the watches of a store, `run` asks
them when they are due. `series` writes a history, `people` the people behind a number.
"""
