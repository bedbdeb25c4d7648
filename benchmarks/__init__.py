"""What streamtopo costs, measured."""
