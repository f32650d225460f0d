"""Settings files: defaults of options, found by themselves or given, in tables for all commands, for one, and for a profile.

`places` has where files are, `keys` which tables and keys there may be and their check, `files` their reading, and `layers`
what a command gets of them, and from where. The keys are the options themselves; no second list has to be kept.
"""
