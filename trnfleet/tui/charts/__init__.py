"""Charts: dots and blocks, axes, the past that they show, and their arrangement on a screen."""
