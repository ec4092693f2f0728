"""TrainJobs of Kubeflow Trainer v2, and the ready-made runtimes that they name."""
