"""`nostr-client count`: one number from many relays. Start with `command`."""
