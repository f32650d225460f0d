"""Charts that stand beside and below each other: how they share the space, and those of one place or job."""
