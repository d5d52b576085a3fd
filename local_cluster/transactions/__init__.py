"""The transaction coordinator: transactional ids and their transactions as replayed records.

Reading order:

- `transaction_fsm`, `transaction`: the states, and one transactional id
- `records`: keys and values of `__transaction_state`
- `requests`: what a shard is asked, and its responses
- `end_txn`: what an EndTxn does in each state
- `shard`: one partition of `__transaction_state`
- `add_partitions`: partitions that join a transaction coordinated elsewhere
- `markers`: WriteTxnMarkers here and at other leaders
- `broker_connections`: connections to other brokers for both
- `producer_ids`: producer ids out of reserved blocks
- `coordinator`: one broker's coordinator
"""
