"""What is checked of a run again, one kind a file."""
