"""Programs that run beside a replica's own, such as a shell: what `kubectl exec` is for a pod."""
