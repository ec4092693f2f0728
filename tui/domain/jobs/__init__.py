"""Lists of jobs: the filter, and jobs that are made of others."""
