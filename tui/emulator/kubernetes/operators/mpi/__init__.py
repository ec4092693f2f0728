"""MPIJobs: of the Training Operator (v1) and of the MPI operator (v2beta1)."""
