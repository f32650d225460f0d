"""Jobs: training, inference and traces, their activity over time and what slows them down."""
