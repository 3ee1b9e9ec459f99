"""Who is the exclusive producer of a topic. Knows `producers`, and the mail between replicas."""
