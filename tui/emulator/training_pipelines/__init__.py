"""Training pipelines: each is a custom job with a parent that mirrors the job."""
