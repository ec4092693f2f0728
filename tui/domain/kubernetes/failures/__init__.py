"""Why replicas of a cluster's job failed, were replaced or restarted, from everything the API still has."""
