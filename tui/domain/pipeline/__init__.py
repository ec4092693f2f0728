"""The tasks of a pipeline: what each waits for, and their order as a tree."""
