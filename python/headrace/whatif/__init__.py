"""What-if questions about result sets: their cells simulated under other conditions."""
