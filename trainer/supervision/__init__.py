"""The supervisor of a node: rendezvous of the nodes, attempts, restarts, and causes of failures."""
