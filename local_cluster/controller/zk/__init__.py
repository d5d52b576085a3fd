"""ZooKeeper behind a port: reads, watches, conditional commits, and the session.

Reading order:

    coordination          the port: as little of ZooKeeper as the control plane needs
    term                  one term of a controller; the fence that each of its writes carries
    bulk_reads            many calls at once, with a limit
    followed_znodes       reads changed znodes again, for read models
    kazoo_coordination    the port on kazoo
    kazoo_client          one kazoo client, and how its death is noticed
    kazoo_requests        multiRead and transactions in kazoo's own request classes
    kazoo_security        credentials and ACLs in kazoo's terms
    session_file          the session on disk, which the next start of the broker ends
"""
