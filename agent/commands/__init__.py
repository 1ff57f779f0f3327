"""The subcommands of `nostr-agent`, each imported when it is run.

Arguments and options enter; tables or JSON lines and an exit code leave. Start with `run`; a
command has a module of its name, and `options` has what several share.
"""
