"""Start of the training on a node: PID 1, the fork server, and the processes of the trainer or of a
script."""
