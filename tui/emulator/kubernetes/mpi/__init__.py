"""`mpirun` and `sshd` for pods of this machine, where it has neither."""
