"""The documents' code, run as it stands."""
