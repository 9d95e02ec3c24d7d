"""What is found out before an attack."""
