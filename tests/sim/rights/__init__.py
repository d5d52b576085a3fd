"""ACLs that change under simulated brokers, whose connections to ZooKeeper break.

The brokers are the product's ACL store and authorizer; ZooKeeper is simulated, and time is
virtual. An observation is made at one moment, so the bound on revocation is checked to the
millisecond. The checker is that of the nemesis (tests/nemesis/checkers/rights.py).

    world    brokers, admins, faults, and who looks
    broken   brokers with one rule taken out each, which the checker must notice
"""
