"""tail."""
