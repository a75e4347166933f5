"""Environments and their spaces, whatever library they come from."""
