"""What is on the screen, as files: a picture of it, and the rows of the view as a table."""
