"""The fields of each listed thing, which screens, the verbs' tables and `--json` are made from."""
