"""Documents of neuron-monitor, read as wire codes and written from a fleet's messages."""
