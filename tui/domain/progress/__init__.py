"""Training progress from the log lines of third-party trainers.

`JobProgress` (job_progress.py) reads a job's entries one by one. The dialects (dialects.py) parse a line: one
module per line format in formats/, with the common parts in parsing/. tracker.py joins values from several
lines, such as a bar's step and a dict's loss. silence.py detects a silent job.
"""
