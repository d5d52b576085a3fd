"""active."""
