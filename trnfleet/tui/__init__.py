"""The terminal app, the only importer of Textual.

Read this first.

`app` owns the screen: bars, keys, commands, the tick, and the choice among `views.VIEWS`. A folder
for each view (`fleet`, `hierarchy`, `chip`, `reservations`, `alerts`, `events`) has its `view.py`
and its widgets; views do not import each other. `playback` has the bar of time. Below
them: `state` is shared by views, `format` makes values into text, `widgets` know no fleet, `theme`
has every colour. Imports go down that list only. A view gets a `state.context.UiContext` and reads
its monitor in each tick.
"""

import os

# Textual reads this when it is imported. At 120 a key is on the screen within 10 ms or so, for the
# same work.
os.environ.setdefault("TEXTUAL_FPS", "120")
