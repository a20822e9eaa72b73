"""The budgets of the hot paths, measured; nothing here asserts wall time."""
