"""`nostr-client store`: work on the local store.

Start with `commands`. `files` imports and exports events, `sql` queries the views.
"""
