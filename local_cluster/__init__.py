"""The wire-compatible broker cluster of one datacenter. See README.md for the map."""
