"""How a client authenticates: its settings (security, pure), secrets and TLS (credentials), SASL
(sasl), SCRAM (scram, pure), and whether files changed (file_states)."""
