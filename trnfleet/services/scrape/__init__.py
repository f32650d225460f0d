"""The scraper: real hosts by the metrics pages of their exporters, without an agent."""
