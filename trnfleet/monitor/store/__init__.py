"""The store: columns of newest values, and what is computed from them in each pass."""
