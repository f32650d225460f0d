"""Commands from `command/` topics: checks, rate limits and answers, for any program."""
