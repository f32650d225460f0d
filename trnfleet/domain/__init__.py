"""The domain: hardware, addresses, topology and metrics; reads no clock, file or socket."""
