"""What the controller decides. Pure: no I/O, no clock, no chance.

Reading order:

    fsm                     one event and the state give the next state and what to write
    elections               leader and ISR of a partition: clean, preferred, unclean
    broker_changes          brokers that register, restart, shut down, report offline replicas
    topic_deletions         deletion of a topic, up to the purge of its znodes
    reassignments           replicas that move (KIP-455)
    isr_changes             the ISR that a leader proposes: accepted or refused
    topic_planner           replicas and configs of new topics and partitions, or a refusal
    placement               the brokers of new replicas
    auto_created_topics     topics that are created on first use
    config_requests         changes of topic and broker configs
    dynamic_broker_configs  broker configs that change without a restart
"""
