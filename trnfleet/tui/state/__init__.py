"""State shared by views, without widgets.

`context.py` bundles it: alerts, the highlighted reservation, descriptors by instance.
"""
