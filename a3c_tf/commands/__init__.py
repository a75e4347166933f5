"""The command line ``a3c-tf``: what a person types, and how a program ends."""
