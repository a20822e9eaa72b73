"""Generated code of the kubelet's device plugin and PodResources protocols."""
