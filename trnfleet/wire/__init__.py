"""What goes over the wire: topics, messages, frames, and the ports they pass through."""
