"""Programs that run on the cluster's nodes, where clusterjobs is not installed.

Each is one file that `job.sh` carries along as text and runs with the node's own python3: the
standard library of Python 3.7 and nothing else, nothing of clusterjobs either.
"""
