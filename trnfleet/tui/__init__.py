"""The terminal app: the only importer of Textual."""

import os

# Textual reads this when it is imported. At 120 a key is on the screen within 10 ms or so, for the same work.
os.environ.setdefault("TEXTUAL_FPS", "120")
