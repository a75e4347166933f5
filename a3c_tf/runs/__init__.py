"""The run folder: what is written there and read back, from settings and checkpoints to curves."""
