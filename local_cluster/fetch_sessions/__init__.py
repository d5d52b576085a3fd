"""fetch_sessions."""
