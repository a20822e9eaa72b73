"""Living state and the decisions taken on it; no protocol."""
