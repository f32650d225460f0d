"""The lines round every view: header, tabs, breadcrumbs, status line and tour.

Pure functions from figures and width to parts.
"""
