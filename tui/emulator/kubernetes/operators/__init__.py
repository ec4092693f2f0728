"""Controllers of the emulated cluster: jobs of every kind, queues, garbage collection.

For each kind, functions without a store compute the required pods, the status and the objects to delete. A
controller reads the store, evaluates these functions and applies the results, so it can restart at any time.
"""
