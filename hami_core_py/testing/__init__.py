"""The kit for authors of backends: contract suite, builders and strategies."""
