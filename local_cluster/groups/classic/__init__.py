"""classic."""
