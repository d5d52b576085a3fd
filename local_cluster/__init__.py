"""The wire-compatible broker cluster of one datacenter. See README.md for the map."""

from local_cluster.compilation.finder import install

install()
