"""The formats of a drawing: DOT, JSON, Mermaid, SVG."""
