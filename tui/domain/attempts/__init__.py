"""The attempts of a job: when each began and ended, what its time went into, and how many steps were lost."""
