"""The subcommands of `nostr-agent`, each imported when it is run."""
