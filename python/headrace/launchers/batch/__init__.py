"""What launchers of batch systems share: options, the cluster of batch jobs, the base class."""
