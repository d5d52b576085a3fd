"""Positions of consumer groups follow their source.

- `position_rules` (pure): what is committed for a group, and why not.
- `group_changes` (pure): a round that decides only about groups that changed.
- `group_syncer`: requests the positions, and commits translated ones.
- `shared_positions` (pure), `position_placer`: safe positions in partitions with records of several
  origins; the maps and positions that they need.
- `mm2_topics`: MirrorMaker 2's offset syncs, checkpoints and heartbeats.
- `source_group`: the link's own positions, committed at the source for lag tools.
"""
