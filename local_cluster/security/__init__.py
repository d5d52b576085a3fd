"""Who a client is (`authentication/`), and what it may do on which resources (`authorization/`)."""
