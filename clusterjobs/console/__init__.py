"""What people see on a terminal: problems, tables, colours, options of commands."""
