"""Frozen values that every part of the core speaks in; imports only the standard library.

Reading order: ``devices`` (what a node has), ``families`` (how one kind of device behaves), ``requests`` (what a pod
asks), ``answers`` (yes, no and why), ``allocations`` (what was given), ``views`` (what decisions may see of Kubernetes).
"""
