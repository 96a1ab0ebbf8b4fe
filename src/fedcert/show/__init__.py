"""What people see: figures and terminal tables."""
