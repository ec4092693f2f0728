"""Why replicas of a cluster's job failed, were replaced or restarted, from all that the API still says."""
