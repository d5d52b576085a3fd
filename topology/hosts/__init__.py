"""What runs on the other hosts of a deployment, as their supervisors tell it over HTTP.

Reading order:

    answers   the answer of one host, or why there is none (pure)
    asking    asks many hosts at once, within limits of bytes and time
    standing  whether the file of a host is the newest generation (pure)
    plan      what `up` would do on another host
    fitness   whether this host can run its part: room, open files, clocks (pure)
    own_host  looks at this host before `up` starts anything
    refusals  what `up` on other hosts would refuse
    check_job  the process that a supervisor starts to find that out
    rights_elsewhere  users, ACLs and quotas of clusters that only other hosts run
    document  the `hosts` of a status and a plan
    stop      stops the processes of another host
    stop_all  stops the processes of every host
    show      lines and tables for people (pure)

Not here: the port itself (`supervisor/host_server.py`), and whether the processes of other hosts
can be reached from here (`status/peers.py`).
"""
