"""`heliograph upgrade`: all hosts take over another version, one process after the other.

    command --writes--> plan in ZooKeeper <--watches-- supervisor --starts--> turn of its host

Reading order:

    upgrade_plan   the plan: wanted version, order of the hosts, how far each is (pure)
    plan_znode     the plan, and the levels of formats, in ZooKeeper
    restart_order  which processes restart, and what must be well before (pure)
    host_upgrade   restarts the processes of this host, one after the other
    turn           entry point of a host's turn, in the installed version
    watch          the supervisor's part: it starts the turn when it has come
    show           the document, and lines for people (pure)
    command        `heliograph upgrade`
"""
