"""How a client authenticates: its settings (security, pure), secrets and TLS (credentials), SASL
(sasl), and SCRAM (scram, pure)."""
