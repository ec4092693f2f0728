"""The attempts of a job: when each began and ended, how it used its time, and how many steps were lost."""
