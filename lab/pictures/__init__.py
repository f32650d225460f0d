"""Pictures of the app for the documentation."""
