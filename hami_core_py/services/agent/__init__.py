"""The node agent's work: which devices there are, whose container starts, and what it receives. No protocol lives here."""
