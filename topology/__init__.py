"""Composition root: the topology file, the deployment that follows from it, the command.

Reading order:

    main        the `heliograph` command: its subcommands and exit codes
    version     what `heliograph --version` prints
    problems    errors that a person can act on, in the file and in a deployment
    model       the topology file as pydantic models
    file        a file's text to a model, or to every problem in it
    rules       rules between several entries of a file
    deployment  what a topology runs: daemons, their settings, the difference to what runs
    supervisor  keeps the daemons of one deployment running on this host
    keeper      entry point of the process that starts the supervisor and restarts it
    shared_file  the topology file as the hosts agree on it, in ZooKeeper
    hosts       what runs on other hosts, by the HTTP of their supervisors
    upgrade     `heliograph upgrade`: all hosts take over another version
    operate     `up` and `down`, rolling restarts among them
    status      what runs and responds, what does not, and what to do about it
    mirror      `heliograph mirror ...` and `gaps`
    audit       `heliograph audit`
    rebalance   `heliograph rebalance`
    demo        `heliograph demo`
    cli         the other subcommands, and what all of them share
"""
