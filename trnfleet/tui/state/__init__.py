"""State that views share: alerts, descriptors and the highlighted reservation."""
