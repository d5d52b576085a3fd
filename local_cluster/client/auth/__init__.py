"""How a client authenticates: settings and TLS (security), SASL (sasl), SCRAM (scram, pure)."""
