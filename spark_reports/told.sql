-- The events that an audit needs.
SELECT topic, subscription, life, at_ns, number, kind, consumer, facts FROM {events} JOIN {wanted} USING (kind)
