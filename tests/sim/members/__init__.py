"""Members of simulated groups: `python -m tests.sim.cluster --seeds 12:1012:50`.

Classic members (eager, cooperative) and members of the consumer protocol share groups, change
between the protocols, crash and stall, while their coordinators fail over and are paused. Reading
order:

    slots            who joins, leaves, crashes, stalls, upgrades and downgrades, and when
    member           one member: its process, its requests, its positions
    classic          the classic protocol, as a Java consumer speaks it
    consumer         the consumer protocol (KIP-848), likewise
    judge            what must hold, from what members were told
    broken_groups    coordinators with one rule taken out each, which the judge must notice
"""
