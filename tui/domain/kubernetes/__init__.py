"""Training jobs on Kubernetes: their kinds, manifests, rules and states."""
