"""The screen as files: a picture, and the rows of the view as a table."""
