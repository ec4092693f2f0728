"""The kubelet, which runs pods as processes of this machine."""
