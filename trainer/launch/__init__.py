"""Start of the training: PID 1, a node's supervisor, the rendezvous, the ranks' processes."""
