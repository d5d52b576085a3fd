"""following."""
