"""Gathering facts for the checks: from Kubernetes objects, and from the files and sockets of a node."""
