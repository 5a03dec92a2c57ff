"""What an operator is: its record, the kinds of records, and how they are published."""
