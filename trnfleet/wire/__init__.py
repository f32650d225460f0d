"""The wire: topics, messages, frames, and the ports that they pass through."""
