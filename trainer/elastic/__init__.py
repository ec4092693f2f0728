"""`--elastic`: when a node is lost, the others train on, and take it back without stopping."""
