"""Reserved capacity of a real account: EC2's answers as reservation messages and events."""
