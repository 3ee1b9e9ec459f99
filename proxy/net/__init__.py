"""State machines that reach devices through ports, a room for each. The files here are what all of them may know."""
