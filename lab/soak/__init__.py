"""Memory of programs over hours: `make soak` and `make churn`."""
