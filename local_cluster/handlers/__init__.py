"""One file per API of the Kafka protocol, each registered with its range of versions.

In reading order: `registry` (which function serves which API), `services` (what a handler may
use), `deferred` and `awaited_reply` (responses that wait), `all` (imports the handlers),
`authorized_operations` (KIP-430). `broker_requests` checks what only brokers may send. The rooms:
`data`, `groups`, `transactions`, `topics`, `configs`, `cluster`, `security`; `README.md` has the
table of API keys.
"""
