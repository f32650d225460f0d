"""The lines round every view: header, tabs, breadcrumbs, status line and tour; pure functions from figures and width to parts."""
