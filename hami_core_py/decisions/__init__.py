"""Pure logic: values in, values out; no clock, no logger configuration, no Kubernetes object."""
