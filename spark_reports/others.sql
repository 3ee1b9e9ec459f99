-- What the tables beside that of deliveries have of each run.
SELECT gateway, life, count(*) AS rows, min(wall_ns) AS first_wall_ns, max(wall_ns) AS last_wall_ns,
       min(wall_ns - at_ns) AS ahead_min_ns, max(wall_ns - at_ns) AS ahead_max_ns
FROM (
    SELECT gateway, life, at_ns, wall_ns FROM {events}
    UNION ALL SELECT gateway, life, at_ns, wall_ns FROM {drains}
    UNION ALL SELECT gateway, life, at_ns, wall_ns FROM {redeliveries}
    UNION ALL SELECT gateway, life, at_ns, wall_ns FROM {metrics}
) AS every
WHERE wall_ns >= {since_ns} AND wall_ns < {until_ns}
GROUP BY gateway, life
