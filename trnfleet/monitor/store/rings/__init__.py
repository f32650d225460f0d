"""Rings of samples (`ring.py`), and the past of nodes that is made of them (`record.py`)."""
