"""The Python data source "streamtopo": topics of the embedded log as tables and streams."""
