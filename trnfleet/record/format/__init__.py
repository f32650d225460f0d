"""The file format: MCAP records, chunks, envelopes, keyframes and limits, without any file handle."""
