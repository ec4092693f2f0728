"""The cluster's nodes on this machine: their objects, the scheduler, and the kubelet that runs pods."""
