"""Writing of recordings: part file, recorder thread, and the app's live buffer."""
