"""Training progress from the log lines of trainers that know nothing of vxtui.

`JobProgress` (job_progress.py) reads a job's entries one by one. What a line says is found by the dialects
(dialects.py): one module for each way of printing it. What comes in several lines, such as a bar's step and a
dict's loss, is joined in tracker.py.
"""
