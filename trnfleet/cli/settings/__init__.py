"""Settings files: defaults of options for all commands, for one, and for a profile.

`places` has the files' places, `keys` the tables and keys with their check, `files` the reading,
and `layers` a command's settings with their sources. The keys are the options themselves; no second
list is needed.
"""
