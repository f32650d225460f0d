"""Alerts over the store: what rules see, which of them hold, and what people have said about that."""
