"""Controllers of the emulated cluster: jobs of every kind, queues, garbage collection.

Each kind decides with functions of objects without a store: which pods must exist, what the status is, what
to delete. A controller reads the store, evaluates these functions and applies the results, so it can restart
at any time.
"""
