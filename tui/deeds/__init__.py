"""What actions do, by what they are about."""
