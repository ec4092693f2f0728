"""What is known of training jobs on Kubernetes: their kinds, manifests, rules and states."""
