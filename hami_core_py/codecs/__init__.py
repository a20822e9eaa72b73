"""Text ⇄ models: pure functions, no I/O; the only place that knows a delimiter or a JSON key."""
