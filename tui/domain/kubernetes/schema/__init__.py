"""The schemas of the kinds that jobs, queues and pods are made of: tables of facts, and checks."""
