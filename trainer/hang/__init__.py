"""Detection of hangs: the supervisor of a node reports the rank and the source line that cause a hang."""
