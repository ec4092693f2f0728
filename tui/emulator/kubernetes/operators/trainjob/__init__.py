"""TrainJobs of Kubeflow Trainer v2 and their predefined runtimes."""
