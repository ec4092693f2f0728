"""`--elastic`: after the loss of a node the other nodes continue to train, and it can rejoin without a
restart."""
