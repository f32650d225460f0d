"""Writing recordings: a part file, the recorder's thread, and the live buffer behind the app."""
