-- Rows of their journals that gateways counted as lost.
SELECT CAST(coalesce(sum(value), 0) AS BIGINT) AS rows_lost
FROM (
    SELECT max(value) AS value FROM {metrics}
    WHERE name = 'keyline_gateway_journal_rows_dropped_total' AND wall_ns >= {since_ns} AND wall_ns < {until_ns}
    GROUP BY life, labels['kind']
) AS by_kind
