"""The fields of each listed resource, for screens, the verbs' tables and `--json`."""
