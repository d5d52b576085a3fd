"""A small asyncio Kafka client for raw record bytes and admin calls."""
