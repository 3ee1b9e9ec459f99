"""A Kubernetes cluster of one node on this machine: the real programs, in a network of their own."""
