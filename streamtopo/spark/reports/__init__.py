"""Reports: charts of tables, and the differences that reconciliation finds."""
