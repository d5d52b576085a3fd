"""How a client authenticates: its settings (security, pure), secrets and TLS (credentials), SASL
(sasl), SCRAM (scram, pure), a user of ZooKeeper (zookeeper_security, pure), and whether files
changed (file_states)."""
