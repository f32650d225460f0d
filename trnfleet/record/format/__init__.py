"""The file format, without file handles.

Contents: MCAP records, chunks, envelopes, keyframes and limits.
"""
