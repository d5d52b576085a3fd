"""One broker of a simulation: the real parts on simulated ports.

Reading order:

    sim_broker         composes the real parts; start, kill, power loss, clean stop
    sim_process        processes: their tasks stop (SIGSTOP) and die with them
    sim_disk           a disk that loses unsynced data with the power
    sim_network        connections with delays, cut links, breaks
    sim_zookeeper      ZooKeeper with sessions that time out and late watches
    sim_serving        dispatches requests to the real handlers
    sim_flusher        group commit in virtual time
    sim_housekeeping   checkpoints and probes of full disks
    sim_clock          a wall clock that may jump
"""
