"""What programs define operators with; `tritorch.library` has the public names."""
