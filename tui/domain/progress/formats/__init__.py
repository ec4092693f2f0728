"""One module per line format of a trainer.

A module has `read`, a pure function of one line, and `PRIORITY`: lower numbers are tried earlier. `SIGNS`
lets its lines pass: substrings of which each line has at least one, and an RE2 expression that selects such
lines on a log's server, which may match more lines than `read` accepts.
"""
