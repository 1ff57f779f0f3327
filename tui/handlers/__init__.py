"""What actions do: a handler takes the host and the words after the action's name."""
