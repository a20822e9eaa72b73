"""The lab's kubelet: real device plugin, PodResources and API protocols, containers as local processes."""

from hami_core_py.lab.kubelet.kubelet import Kubelet, end_containers
from hami_core_py.lab.kubelet.options import KubeletOptions
from hami_core_py.lab.kubelet.runtime import log_path

__all__ = ["Kubelet", "KubeletOptions", "end_containers", "log_path"]
