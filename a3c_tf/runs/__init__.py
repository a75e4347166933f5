"""The run folder: what is written and read back, from settings and checkpoints to curves."""
