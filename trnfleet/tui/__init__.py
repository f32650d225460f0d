"""The terminal app, the only importer of Textual. Read this first.

`app.py` owns the screen: bars, keys, the tick, and which view of `views.VIEWS` is shown. A folder for each view (`fleet`, `hierarchy`,
`chip`, `reservations`, `alerts`, `events`) holds its `view.py` and its widgets; views do not import each other. `playback` has the keys
and the bar of time. Below them: `state` is what views share, `format` makes values into text, `widgets` know no fleet, `theme.py` has every
colour. Imports go down that list only. A view gets a `state.context.UiContext` and reads the monitor in it when it is ticked.
"""

import os

# Textual reads this when it is imported. At 120 a key is on the screen within 10 ms or so, for the same work.
os.environ.setdefault("TEXTUAL_FPS", "120")
