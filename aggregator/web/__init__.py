"""The aggregator's HTTP API and page, on aiohttp."""
