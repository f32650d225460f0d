"""State that views share, without a widget: `context.py` bundles it; alerts, the highlighted reservation, descriptors by instance."""
