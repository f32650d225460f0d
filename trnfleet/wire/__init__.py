"""The wire: topics, messages, frames, and their ports."""
