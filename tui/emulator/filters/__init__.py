"""Filters of all emulated services: one grammar, one syntax tree, one evaluator.

`parser` parses a text, `syntax` defines the tree, `fields` the table of a service's fields, `value_types` the
operators, and `evaluate` tests records. Each service has its own tables.
"""
