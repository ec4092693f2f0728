"""What a kubelet and the metrics server answer: logs, programs in containers, usage."""
