"""The data path: Produce, Fetch, and offsets in logs.

- Produce: `p00_produce`; `verified_produce` asks the transaction coordinator first, and
  `delayed_produce` waits for commits.
- Fetch: `p01_fetch`; `consumer_fetch` with `partition_read`, and `follower_fetch`.
- `throttles`: how long quotas let a producer or consumer wait.
- `current_leader`: who leads instead (KIP-951), for Produce and Fetch.
- `p02_list_offsets`, `p21_delete_records`, `p23_offset_for_leader_epoch`.
"""
