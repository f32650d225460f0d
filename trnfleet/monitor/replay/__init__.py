"""Going back in time: a monitor of the past that is played from a tape beside the one of the present."""
