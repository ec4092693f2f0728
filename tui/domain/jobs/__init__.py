"""Lists of jobs: the filter, and jobs that consist of other jobs."""
