"""The schemas of the kinds that jobs, queues and pods consist of, as tables, and the checks against them."""
