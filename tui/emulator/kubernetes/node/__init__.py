"""The cluster's nodes on this machine: node objects, the scheduler, and the kubelet that runs pods."""
