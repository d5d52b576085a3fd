"""`heliograph render`: a topology as files for another supervisor.

Reading order:

    command              render systemd, compose, kubernetes
    processes            the processes with commands that any host can run (pure)
    systemd              units and settings, one tree of files for each host (pure)
    placed               a topology whose hosts are containers (pure)
    containers           its processes as containers (pure)
    compose              a Compose file (pure)
    kubernetes           manifests, a directory for each datacenter (pure)
    kubernetes_objects   the objects of one set of equal containers (pure)
    yaml_text            documents as YAML text (pure)
"""
