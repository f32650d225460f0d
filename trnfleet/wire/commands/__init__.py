"""Commands from `command/` topics: checks, rate limits and answers, for whatever carries them out."""
