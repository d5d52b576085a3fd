"""`heliograph dashboards`: Grafana dashboards, Prometheus's alert rules and scrape targets.

panels             what a dashboard is made of, and its JSON for Grafana
shorthands         labels and rates that panels repeat
cluster_board      the dashboard of clusters
boards             the others, and the list of all
alerts             the alert rules, each with a runbook
targets            the addresses that Prometheus scrapes
scrape_access      how Prometheus authenticates itself
files              the files that are written
command            the subcommand
"""
