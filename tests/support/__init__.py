"""What several test modules share: real brokers, waiting."""
