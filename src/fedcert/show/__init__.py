"""What people see: figures, terminal tables, the page, and metrics for training dashboards."""
