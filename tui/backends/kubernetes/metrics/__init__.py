"""Metrics of the pods of a job: from the trainer, the metrics API and Cloud Monitoring."""
