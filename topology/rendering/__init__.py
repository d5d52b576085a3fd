"""`heliograph render`: a topology as files for another supervisor.

Reading order:

    command     render systemd
    processes   the processes with commands that any host can run (pure)
    systemd     units and settings, one tree of files for each host (pure)
"""
