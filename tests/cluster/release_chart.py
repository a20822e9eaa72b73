"""The chart as a release in a cluster: installed, changed, rolled back and removed by helm itself."""

import base64
from pathlib import Path
from typing import Any

from hami_core_py.cluster.client import Client, join_path
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods

CHART = Path(__file__).parents[2] / "charts" / "hami"
NAME, NAMESPACE, NODES = "hami", "hami-system", "hami-nodes"
BACKENDS = ("--set", "backends.enabled={nvidia}")


class Chart:
    """One release of our chart."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def install(self, *flags: str) -> None:
        """Install it, in place of one that an earlier attempt of a test has left."""
        if self.plane.tool("helm", "status", NAME, "--namespace", NAMESPACE).returncode == 0:
            self.clear()
        self._helm("install", NAME, CHART, "--namespace", NAMESPACE, "--create-namespace", *BACKENDS, *flags)

    def upgrade(self, *flags: str) -> str:
        """Change values; the notes that helm prints."""
        return self._helm("upgrade", NAME, CHART, "--namespace", NAMESPACE, *BACKENDS, *flags)

    def roll_back(self) -> None:
        """Return to the revision before."""
        self._helm("rollback", NAME, "--namespace", NAMESPACE)

    def uninstall(self) -> None:
        """Remove it."""
        self._helm("uninstall", NAME, "--namespace", NAMESPACE, "--wait")

    def clear(self) -> None:
        """Remove what is there of it, also where no kubelet ends its pods, until its namespace can be made again."""
        self._helm("uninstall", NAME, "--namespace", NAMESPACE, "--ignore-not-found")
        for namespace in (NAMESPACE, NODES):
            Pods(self.plane.client, namespace).clear()
        self.plane.kubectl("wait", "--for=delete", f"namespace/{NODES}", "--timeout=90s")

    def manifests(self, *flags: str) -> str:
        """What helm would send, as YAML."""
        version = self.plane.release.kubernetes
        return self._helm(
            "template", NAME, CHART, "--namespace", NAMESPACE, "--kube-version", version, *BACKENDS, *flags
        )

    def as_account(self, namespace: str, account: str, pod: str = "") -> Client:
        """A client with the rights of a service account; see ``kubeconfig_of``."""
        return Client.from_kubeconfig(self.kubeconfig_of(namespace, account, pod), timeout_seconds=30)

    def kubeconfig_of(self, namespace: str, account: str, pod: str = "") -> Path:
        """A kubeconfig with the rights of a service account, by a token of its own.

        :param pod: the token is bound to this pod of the account, and so says on which node its bearer runs.
        """
        spec: dict[str, Any] = {"expirationSeconds": 3600}
        if pod:
            found = self.plane.client.get(join_path("api", "v1", "namespaces", namespace, "pods", pod))
            uid = found["metadata"]["uid"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = join_path("api", "v1", "namespaces", namespace, "serviceaccounts", account, "token")
        token = self.plane.client.create(path, body)["status"]["token"]
        return self.plane.write_token_kubeconfig(f"{namespace}-{account}-{pod}", token)

    def arguments_of(self, deployment: str, container: str) -> list[str]:
        """What a container of a Deployment of ours is started with: the program's name and its arguments."""
        path = join_path("apis", "apps", "v1", "namespaces", NAMESPACE, "deployments", deployment)
        containers = self.plane.client.get(path)["spec"]["template"]["spec"]["containers"]
        (found,) = [c for c in containers if c["name"] == container]
        return [*found["command"], *found["args"]]

    def texts_of(self, kind: str, name: str) -> dict[str, str]:
        """Files of a ConfigMap or a Secret of ours, a Secret's decoded. :param kind: ``configmaps`` or ``secrets``."""
        data = self.plane.client.get(join_path("api", "v1", "namespaces", NAMESPACE, kind, name)).get("data") or {}
        return {key: base64.b64decode(text).decode() for key, text in data.items()} if kind == "secrets" else dict(data)

    def _helm(self, *arguments: Any) -> str:
        done = self.plane.tool("helm", *arguments)
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr}"
        return done.stdout


def everything(plane: ControlPlane) -> set[str]:
    """Kind and name of all objects that a release could have left."""
    kinds = (
        "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingadmissionpolicies,"
        "validatingadmissionpolicybindings,priorityclasses,namespaces"
    )
    # Of what lies in namespaces only kube-system's could be left: ours go.
    below = "deployments,daemonsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings"
    names = plane.kubectl("get", kinds, "-o", "name").splitlines()
    names += plane.kubectl("get", below, "-n", "kube-system", "-o", "name").splitlines()
    return set(names)
