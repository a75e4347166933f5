"""The algorithms, a file each: their losses, targets and gradients."""
