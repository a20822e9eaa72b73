"""Address, credentials and TLS of the cluster, and pools of kept connections; nothing else imports ``kubernetes``."""

import os
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.errors import BadInputError

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


class Connection:
    """Where the API server is, who we are, and the connections to it.

    Calls and watches have separate pools, so that a long watch never holds a call's connection.
    """

    def __init__(self, configuration: Any, *, call_connections: int = 64) -> None:
        from kubernetes.client.rest import RESTClientObject

        self.url: str = configuration.host.rstrip("/")
        self._configuration = configuration
        configuration.keep_alive = True
        configuration.retries = False
        configuration.connection_pool_maxsize = call_connections
        self.calls = RESTClientObject(configuration).pool_manager.connection_from_url(self.url)
        configuration.connection_pool_maxsize = 16
        self.watches = RESTClientObject(configuration).pool_manager.connection_from_url(self.url)

    @classmethod
    def from_kubeconfig(cls, path: Path | str | None, *, call_connections: int = 64) -> "Connection":
        """Read a kubeconfig file; ``None``: the pod's own service account, or the default file outside of a cluster.

        :raises BadInputError: it cannot be read or lacks what is needed.
        """
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

        configuration = Configuration()
        try:
            if path is None and IN_CLUSTER in os.environ:
                load_incluster_config(configuration)  # type: ignore[no-untyped-call]
            else:
                load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=None if path is None else str(path),
                    client_configuration=configuration,
                    persist_config=False,
                )
        except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError) as problem:
            where = str(path or os.environ.get("KUBECONFIG") or "~/.kube/config")
            raise BadInputError(where, "a readable kubeconfig", " ".join(str(problem).split())) from problem
        return cls(configuration, call_connections=call_connections)

    @classmethod
    def to_loopback(cls, url: str, *, call_connections: int = 64) -> "Connection":
        """A server of this machine that speaks plain HTTP and asks for no credentials."""
        from kubernetes.client import Configuration

        configuration = Configuration()
        configuration.host = url
        return cls(configuration, call_connections=call_connections)

    def headers(self) -> dict[str, str]:
        """Headers that say who we are; a token that is about to expire is renewed first."""
        token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"authorization": token} if token else {}

    def close(self) -> None:
        """Close idle connections."""
        self.calls.close()
        self.watches.close()
