"""The table of the emulated kinds of jobs, and kinds that stand above several services."""
