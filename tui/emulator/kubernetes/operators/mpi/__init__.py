"""The MPIJobs (v2beta1) of the MPI operator."""
