"""Workers in other processes and on other machines, around a parameter server."""
