"""The logs of pods: read, followed, and merged with what the cluster says of a job."""
