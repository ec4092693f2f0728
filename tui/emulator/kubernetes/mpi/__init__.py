"""Replacements for `mpirun` and `sshd` in pods."""
