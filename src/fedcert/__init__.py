"""fedcert."""
