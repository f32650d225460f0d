"""The Fleet view: the heat map with problems, jobs and trends beside it.

Of the heat map: `heatmap_grid` places chips, `heatmap_zoom` maps places to cells, `heatmap_pixels`
reads values, `heatmap_style` colours them, `heatmap_cursor` selects, and `heatmap` is the widget.
"""
