"""Why replicas of a cluster's job failed, were replaced or restarted, from all evidence the API still
holds."""
