"""What an aggregate cluster knows: merged topics, offset translation, audit; its HTTP API."""
