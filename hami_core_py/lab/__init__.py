"""The whole system on one machine without a cluster; imported by the command line only."""
