-- The questions of ordering_audit.py for DuckDB, over the views `deliveries` and `events`: the same answers.
WITH held AS (
    SELECT topic, subscription, key_digest, ledger, entry, batch_index, life, consumer, attempt,
           deliveries.sent_ns AS given_ns,
           min(gateway) AS gateway,
           min(slot) AS slot,
           min(sent_ns) FILTER (event = 'sent' OR wall_ns - (at_ns - sent_ns) < $around_since_ns) AS sent_ns,
           min(at_ns) FILTER (event <> 'sent') AS ended_ns,
           arg_min(event, at_ns) FILTER (event <> 'sent') AS how,
           min(wall_ns - at_ns) AS ahead_ns,
           coalesce(bool_or(why = 'given_up'), false) AS given_up,
           coalesce(bool_or(why = 'whole'), false) AS whole
    FROM deliveries
    WHERE wall_ns >= $around_since_ns AND wall_ns < $around_until_ns
    GROUP BY topic, subscription, key_digest, ledger, entry, batch_index, life, consumer, attempt, deliveries.sent_ns
),
-- When and how what was not acknowledged of a batch that only goes whole came back, by the batch's delivery.
rests AS (
    SELECT topic, subscription, life, ledger, entry, consumer, attempt, sent_ns AS given_ns,
           min(at_ns) AS rest_ns,
           arg_min(event, at_ns) AS rest_how
    FROM deliveries SEMI JOIN (
        SELECT topic, subscription, life, ledger, entry FROM deliveries
        WHERE why = 'whole' AND wall_ns >= $around_since_ns AND wall_ns < $around_until_ns
    ) AS wholes USING (topic, subscription, life, ledger, entry)
    WHERE event IN ('returned', 'dropped') AND wall_ns >= $around_since_ns AND wall_ns < $around_until_ns
    GROUP BY ALL
),
markers AS (
    SELECT topic, subscription, life,
           list(at_ns) FILTER (list_contains($beginnings, kind)) AS marks,
           list(at_ns) FILTER (list_contains($absences, kind)) AS absences,
           bool_or(json_extract_string(facts, '$.ordering_mode') = 'unordered') AS unordered
    FROM events
    WHERE list_contains($beginnings, kind) OR list_contains($absences, kind)
    GROUP BY ALL
),
in_segments AS MATERIALIZED (
    SELECT held.*,
           CASE WHEN how = 'acked' THEN coalesce(rest_how, how) ELSE how END AS back_how,
           CASE WHEN how = 'acked' THEN coalesce(rest_ns, ended_ns) ELSE ended_ns END AS back_ns,
           sent_ns IS NOT NULL AS was_sent,
           len(list_filter(coalesce(marks, []), lambda mark: mark <= coalesce(sent_ns, ended_ns))) AS segment,
           coalesce(unordered, false) AS unordered,
           coalesce(sent_ns, ended_ns) + ahead_ns BETWEEN $since_ns AND $until_ns - 1 AS inside,
           coalesce(ended_ns + ahead_ns BETWEEN $since_ns AND $until_ns - 1, false) AS ended_inside
    FROM held LEFT JOIN markers USING (topic, subscription, life)
         LEFT JOIN rests USING (topic, subscription, life, ledger, entry, consumer, attempt, given_ns)
),
-- Most messages are held once; windows are for the others.
several AS (
    SELECT topic, subscription, key_digest, ledger, entry, batch_index FROM in_segments GROUP BY ALL HAVING count(*) > 1
),
by_message AS MATERIALIZED (
    SELECT *,
           row_number() OVER in_segment AS number,
           CASE WHEN whole THEN lag(back_how) OVER in_segment ELSE lag(how) OVER in_segment END AS before_how,
           CASE WHEN whole THEN lag(back_ns) OVER in_segment ELSE lag(ended_ns) OVER in_segment END AS before_ended_ns,
           lag(consumer) OVER in_segment AS before_consumer,
           lead(sent_ns) OVER in_segment AS next_sent_ns,
           coalesce(bool_or(how = 'acked') OVER in_life, false) AS acked_in_life,
           bool_or(was_sent) OVER (
               PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life, consumer
           ) AS sent_to_this_worker,
           row_number() OVER lives AS number_of_all,
           bool_or(was_sent) OVER everywhere AS sent_at_all,
           coalesce(bool_or(how = 'acked') OVER everywhere, false) AS acked_at_all
    FROM in_segments SEMI JOIN several USING (topic, subscription, key_digest, ledger, entry, batch_index)
    WINDOW everywhere AS (PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index),
           in_life AS (PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life),
           in_segment AS (
               PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life, segment
               ORDER BY sent_ns NULLS LAST, ended_ns
           ),
           lives AS (
               PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index
               ORDER BY life, segment, sent_ns NULLS LAST, ended_ns
           )
    UNION ALL BY NAME
    SELECT *, 1 AS number, 1 AS number_of_all, was_sent AS sent_to_this_worker, was_sent AS sent_at_all,
           coalesce(how = 'acked', false) AS acked_in_life, coalesce(how = 'acked', false) AS acked_at_all
    FROM in_segments ANTI JOIN several USING (topic, subscription, key_digest, ledger, entry, batch_index)
),
-- Numbers tell which keys may have gone to two workers at once, or back behind a later message: where something new is
-- behind any earlier one of its key, some neighbours are in this order too. Only of these keys the evidence is gathered.
turns AS (
    SELECT topic, subscription, key_digest, unordered,
           lag(consumer) OVER in_time <> consumer AND max(coalesce(ended_ns, 9223372036854775807)) OVER (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns, ledger, entry, batch_index
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) > sent_ns AS may_overlap,
           number = 1 AND lag(CASE WHEN number = 1 THEN (segment, ledger, entry, batch_index) END IGNORE NULLS)
               OVER in_time > (segment, ledger, entry, batch_index) AS is_behind
    FROM by_message
    WHERE was_sent
    WINDOW in_time AS (
        PARTITION BY topic, subscription, key_digest, life ORDER BY sent_ns, ledger, entry, batch_index
    )
),
suspects AS (
    SELECT DISTINCT topic, subscription, key_digest FROM turns WHERE NOT unordered AND (may_overlap OR is_behind)
),
by_time AS (
    SELECT *,
           lag(consumer) OVER in_time AS consumer_before,
           max(CASE WHEN was_sent THEN {
               'until_ns': coalesce(ended_ns, 9223372036854775807), 'place': (ledger, entry, batch_index),
               'message': concat_ws(':', ledger, entry, batch_index), 'consumer': consumer
           } END) OVER before AS held,
           max(CASE WHEN was_sent AND number = 1 THEN {
               'segment': segment, 'place': (ledger, entry, batch_index),
               'message': concat_ws(':', ledger, entry, batch_index), 'consumer': consumer
           } END) OVER before AS ahead
    FROM by_message SEMI JOIN suspects USING (topic, subscription, key_digest)
    WINDOW in_time AS (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns NULLS LAST, ledger, entry, batch_index
           ),
           before AS (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns NULLS LAST, ledger, entry, batch_index
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           )
    UNION ALL BY NAME
    SELECT * FROM by_message ANTI JOIN suspects USING (topic, subscription, key_digest)
),
given AS (
    SELECT *,
           was_sent AND next_sent_ns IS NULL AND coalesce(how = 'returned', false) AND NOT given_up AND NOT acked_in_life
               AS given_back
    FROM by_time
),
-- Of keys of which something is given back for the last time: what was sent last, and what is last in the topic.
lasts AS (
    SELECT topic, subscription, key_digest, life, max(sending) AS last,
           arg_max(sending, (segment, sending.place, sent_ns)) FILTER (was_sent) AS furthest
    FROM (
        SELECT *, {
            'segment': segment, 'sent_ns': coalesce(sent_ns, -1), 'place': (ledger, entry, batch_index)
        } AS sending FROM by_message
    ) SEMI JOIN (SELECT topic, subscription, key_digest, life FROM given WHERE given_back) AS of_given
         USING (topic, subscription, key_digest, life)
    GROUP BY ALL
),
told AS (
    SELECT *,
           NOT unordered AND len(list_filter(
               [last, furthest],
               lambda later: later.segment = segment AND later.sent_ns > ended_ns
                   AND later.place > (ledger, entry, batch_index) AND len(list_filter(
                       coalesce(absences, []), lambda mark: mark BETWEEN ended_ns AND later.sent_ns
                   )) = 0
           )) > 0 AS should_have_come
    FROM given LEFT JOIN lasts USING (topic, subscription, key_digest, life)
         LEFT JOIN (SELECT topic, subscription, life, absences FROM markers) AS away USING (topic, subscription, life)
),
judged AS (
    SELECT *,
           coalesce(NOT unordered AND was_sent AND consumer_before <> consumer AND held.consumer <> consumer
                    AND held.until_ns > sent_ns, false) AS overlap,
           coalesce(NOT unordered AND was_sent AND number = 1 AND attempt = 1 AND ahead.segment = segment
                    AND ahead.place > (ledger, entry, batch_index), false) AS inversion,
           given_back AND should_have_come AS never_acked,
           coalesce(how = 'acked', false) AND NOT sent_to_this_worker AS never_delivered,
           was_sent AND number > 1
               AND NOT coalesce(before_how IN ('returned', 'dropped') AND before_ended_ns <= sent_ns, false) AS repeated
    FROM told
)
SELECT
    count(*) FILTER (inside AND number_of_all = 1 AND sent_at_all) AS messages,
    count(*) FILTER (inside AND was_sent) AS deliveries,
    count(*) FILTER (inside AND number_of_all = 1 AND acked_at_all) AS acked,
    count(*) FILTER (ended_inside AND how = 'returned') AS returned,
    count(*) FILTER (ended_inside AND how = 'dropped') AS dropped,
    count(*) FILTER (inside AND was_sent AND number_of_all > 1 AND number > 1 AND before_how = 'returned')
        AS again_after_return,
    count(*) FILTER (inside AND was_sent AND number_of_all > 1 AND number > 1 AND before_how = 'dropped')
        AS again_after_drop,
    count(*) FILTER (inside AND was_sent AND number_of_all > 1 AND number = 1) AS again_in_another_life,
    count(DISTINCT (topic, subscription, key_digest)) FILTER (inside) AS keys,
    count(*) FILTER (inside AND was_sent AND how IS NULL) AS outstanding,
    count(*) FILTER (inside AND given_back AND NOT should_have_come) AS waiting,
    list({
        'overlap': overlap, 'inversion': inversion, 'never_acked': never_acked, 'never_delivered': never_delivered,
        'repeated': repeated, 'gateway': gateway, 'life': life, 'topic': topic, 'subscription': subscription,
        'key_digest': key_digest, 'slot': slot, 'message': concat_ws(':', ledger, entry, batch_index),
        'consumer': consumer, 'sent_ns': sent_ns,
        'ended_ns': ended_ns, 'ahead_ns': ahead_ns, 'held': held, 'ahead': ahead, 'before_how': before_how,
        'before_consumer': before_consumer
    }) FILTER (overlap OR inversion OR never_acked OR never_delivered OR repeated) AS found
FROM judged
