"""`--elastic`: the other nodes continue to train after the loss of a node, and the node can rejoin without a
restart."""
