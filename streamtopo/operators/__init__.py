"""What the nodes of a topology do: functions that make steps."""
