"""One or several fleets on several brokers: messages merged, and writes sent to all."""
