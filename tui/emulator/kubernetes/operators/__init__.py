"""The controllers of the Kubernetes on this machine: jobs of every kind, queues, garbage collection.

Each kind's decisions are functions of objects, without a store: which pods there have to be, what its status
is, what is deleted. A controller reads the store, asks them and does what they say, so that it can start
again at any time.
"""
