"""The supervisor of a node: rendezvous of the nodes, attempts and restarts, and why an attempt ended."""
