"""From envelopes to columns, roll-ups and history; runs without a terminal."""
