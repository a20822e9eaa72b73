"""A small scheduler loop that speaks the kube-scheduler's extender protocol, v1, as the real one does.

It keeps what an extender can notice: own filters first, extender filter, prioritize left out when one node is left, bind by
the extender for pods that ask for a managed resource, preempt only when own filters fail, back-off, and which events wake a
refused pod.
"""
