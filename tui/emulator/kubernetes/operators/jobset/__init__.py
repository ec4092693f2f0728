"""JobSets: groups of Jobs that succeed, fail and restart together."""
