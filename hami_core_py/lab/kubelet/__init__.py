"""The lab's kubelet: real device plugin, PodResources and API protocols, containers as local processes."""

from .kubelet import Kubelet
from .options import KubeletOptions
from .runtime import log_path

__all__ = ["Kubelet", "KubeletOptions", "log_path"]
