"""Settings files: defaults of options for all commands, for one, and for a profile.

`keys` has the tables and keys with their check, `files` the files' places and reading, and `layers`
a command's settings with their sources. The keys are the options themselves; no second list is
needed.
"""
