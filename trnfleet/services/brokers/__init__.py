"""One fleet, or several, on several brokers: their messages in one stream, and what is written to all of them."""
