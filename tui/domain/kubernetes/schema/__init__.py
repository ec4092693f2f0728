"""The schemas of jobs, queues and pods, as tables, and the checks against them."""
