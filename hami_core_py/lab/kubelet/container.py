"""From a container's spec to a running container: devices first, then environment and mounts, then the runtime."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from hami_core_py.cluster.client import Client
from hami_core_py.lab.kubelet import environment, pods
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.devices import DeviceManager
from hami_core_py.lab.kubelet.endpoint import PluginError
from hami_core_py.lab.kubelet.environment import ConfigError
from hami_core_py.lab.kubelet.runtime import ContainerConfig, CreateError, DeviceNode, Mount, Runtime
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp

PAUSE_IMAGE = "hami.io/lab/pause"
IDLE = ["sleep", "infinity"]

log = logging.getLogger(__name__)


class LaunchError(Exception):
    """A container could not be created; ``reason`` and ``message`` go into its waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


class Launcher:
    """Creates containers, in the order in which a real kubelet asks device plugins and runtime."""

    def __init__(
        self,
        *,
        root: Path,
        node: str,
        api: Client,
        devices: DeviceManager,
        runtime: Runtime,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``env``: variables of all containers; see ``KubeletOptions``."""
        self._root, self._node, self._env = root, node, env
        self._api, self._devices, self._runtime = api, devices, runtime

    def launch(self, pod: Json, container: Json, restart_count: int) -> None:
        """Start a container.

        :raises LaunchError: a device plugin or the runtime refused, or the spec refers to something that is missing.
        """
        try:
            responses = self._devices.prepare(pod, container)
            own_env = environment.of_spec(pod, container, self._node, self._api.get)
            config = self._config(pod, container, restart_count, responses, own_env)
        except (PluginError, ConfigError) as error:
            raise LaunchError("CreateContainerConfigError", str(error)) from error
        try:
            self._runtime.start(config)
        except CreateError as error:
            raise LaunchError("CreateContainerError", str(error)) from error
        log.info("container started", extra={"pod": pods.title(pod), "container": container["name"]})

    def _config(
        self,
        pod: Json,
        container: Json,
        restart_count: int,
        responses: Iterable[dp.ContainerAllocateResponse],
        own_env: dict[str, str],
    ) -> ContainerConfig:
        """Where two plugins set the same thing the first one counts; where a plugin and the spec do, the spec."""
        env: dict[str, str] = {}
        mounts: dict[str, Mount] = {}
        devices: dict[str, DeviceNode] = {}
        annotations: dict[str, str] = {}
        names: dict[str, None] = {}
        for one in responses:
            env = dict(one.envs) | env
            mounts = {m.container_path: Mount(m.container_path, m.host_path, m.read_only) for m in one.mounts} | mounts
            devices = {
                d.container_path: DeviceNode(d.container_path, d.host_path, d.permissions) for d in one.devices
            } | devices
            annotations = dict(one.annotations) | annotations
            names |= {device.name: None for device in one.cdi_devices}
        command = container.get("command") or []
        is_idle = not command or container.get("image") == PAUSE_IMAGE
        names_of = {
            "NAMESPACE": pod["metadata"]["namespace"],
            "POD": pod["metadata"]["name"],
            "CONTAINER": container["name"],
        }
        image = {name: environment.expand(value, names_of) for name, value in self._env.items()}
        all_env = environment.base(pod) | image | env | own_env
        return ContainerConfig(
            pod_uid=pods.uid(pod),
            namespace=pod["metadata"]["namespace"],
            pod=pod["metadata"]["name"],
            container=container["name"],
            image=container.get("image", ""),
            args=IDLE
            if is_idle
            else [environment.expand(str(word), own_env) for word in [*command, *(container.get("args") or ())]],
            env=all_env,
            restart_count=restart_count,
            mounts=[*mounts.values(), *self._volumes(pod, container)],
            devices=list(devices.values()),
            cdi_devices=list(names),
            annotations=annotations,
        )

    def _volumes(self, pod: Json, container: Json) -> list[Mount]:
        """The container's own mounts: emptyDir and hostPath volumes; others are left out."""
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        found = []
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"])
            if volume is None:
                raise ConfigError(f"volume {mount['name']!r} is not among the pod's volumes")
            if "hostPath" in volume:
                source = Path(volume["hostPath"]["path"])
            elif "emptyDir" in volume:
                source = self._root / "pods" / pods.uid(pod) / "volumes" / mount["name"]
                source.mkdir(parents=True, exist_ok=True)
            else:
                log.info("volume left out", extra={"pod": pods.title(pod), "volume": mount["name"]})
                continue
            path = source / mount["subPath"] if mount.get("subPath") else source
            found.append(Mount(mount["mountPath"], str(path), bool(mount.get("readOnly"))))
        return found
