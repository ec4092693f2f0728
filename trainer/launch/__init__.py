"""Starting the training: PID 1, a node's supervisor, the rendezvous, the processes of the ranks."""
