"""copy."""
