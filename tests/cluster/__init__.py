"""The system on a real Kubernetes: etcd, API server, scheduler, kubelet and containerd as processes of this machine.

``python -m tests.cluster`` builds what is missing and runs the tests; see ``__main__``. Everything listens on loopback, and a
cluster's state is one directory.
"""
