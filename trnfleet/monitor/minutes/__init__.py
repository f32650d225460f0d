"""Minutes of every chip, accumulated from the store on each message."""
