"""The wire-compatible broker cluster of one datacenter."""
