"""`--elastic`: the other nodes train on when one is lost, and take it back without stopping."""
