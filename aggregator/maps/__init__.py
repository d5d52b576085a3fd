"""maps."""
