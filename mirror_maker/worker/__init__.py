"""The worker process.

- `assignment`: which worker copies which partitions. Pure.
- `worker_group`: the group of a target's workers, as one member sees it.
- `process`: the command line, signals, the exit code.
- `service`: composes clients, links and syncs; runs and stops them.
- `link_run`: one link with its tasks, which is replaced while the others copy.
- `status`, `http`: the JSON status, and the port that serves it and takes an operator's orders.
- `late_imports`: imports them when copying has begun.
"""
