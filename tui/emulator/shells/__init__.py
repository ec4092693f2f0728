"""Programs that run beside a replica's own, such as a shell: the counterpart of `kubectl exec`."""
