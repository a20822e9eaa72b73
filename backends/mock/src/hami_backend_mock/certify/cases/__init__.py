"""The cases, by topic. Importing a module of this package enters its cases."""

from hami_backend_mock.certify.cases import accounting, compute, contexts, devices, families, lookups, monitor, process

__all__ = ["accounting", "compute", "contexts", "devices", "families", "lookups", "monitor", "process"]
