"""Which node a pod gets."""
