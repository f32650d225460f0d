"""The commands: the only place where the packages meet."""
