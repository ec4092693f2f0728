"""The logs of pods: read, followed, and merged with the cluster's events about a job."""
