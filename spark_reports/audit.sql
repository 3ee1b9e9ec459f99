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
in_segments AS (
    SELECT held.*,
           CASE WHEN how = 'acked' THEN coalesce(rest_how, how) ELSE how END AS back_how,
           CASE WHEN how = 'acked' THEN coalesce(rest_ns, ended_ns) ELSE ended_ns END AS back_ns,
           sent_ns IS NOT NULL AS was_sent,
           len(list_filter(coalesce(marks, []), lambda mark: mark <= coalesce(sent_ns, ended_ns))) AS segment,
           coalesce(unordered, false) AS unordered,
           coalesce(absences, []) AS absences,
           coalesce(sent_ns, ended_ns) + ahead_ns BETWEEN $since_ns AND $until_ns - 1 AS inside,
           coalesce(ended_ns + ahead_ns BETWEEN $since_ns AND $until_ns - 1, false) AS ended_inside,
           concat_ws(':', ledger, entry, batch_index) AS message
    FROM held LEFT JOIN markers USING (topic, subscription, life)
         LEFT JOIN rests USING (topic, subscription, life, ledger, entry, consumer, attempt, given_ns)
),
by_message AS (
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
    FROM in_segments
    WINDOW everywhere AS (PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index),
           in_life AS (PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life),
           in_segment AS (
               PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life, segment
               ORDER BY sent_ns NULLS LAST
           ),
           lives AS (
               PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index
               ORDER BY life, segment, sent_ns NULLS LAST
           )
),
by_time AS (
    SELECT *,
           sum(inside::INT) OVER (
               PARTITION BY topic, subscription, key_digest
               ORDER BY life, sent_ns NULLS LAST, ledger, entry, batch_index
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
           ) AS number_of_key,
           lag(consumer) OVER in_time AS consumer_before,
           max(CASE WHEN was_sent THEN {
               'until_ns': coalesce(ended_ns, 9223372036854775807), 'message': message, 'consumer': consumer
           } END) OVER before AS held,
           max(CASE WHEN was_sent AND number = 1 THEN {
               'segment': segment, 'place': (ledger, entry, batch_index), 'message': message, 'consumer': consumer
           } END) OVER before AS ahead,
           max({'segment': segment, 'sent_ns': coalesce(sent_ns, -1)}) OVER (
               PARTITION BY topic, subscription, key_digest, life
           ) AS last
    FROM by_message
    WINDOW in_time AS (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns NULLS LAST, ledger, entry, batch_index
           ),
           before AS (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns NULLS LAST, ledger, entry, batch_index
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           )
),
told AS (
    SELECT *,
           was_sent AND next_sent_ns IS NULL AND coalesce(how = 'returned', false) AND NOT given_up AND NOT acked_in_life
               AS given_back,
           coalesce(last.segment = segment AND last.sent_ns > ended_ns, false) AND NOT unordered AND len(
               list_filter(absences, lambda mark: mark BETWEEN ended_ns AND last.sent_ns)
           ) = 0 AS should_have_come
    FROM by_time
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
    count(*) FILTER (inside AND number_of_key = 1) AS keys,
    count(*) FILTER (inside AND was_sent AND how IS NULL) AS outstanding,
    count(*) FILTER (inside AND given_back AND NOT should_have_come) AS waiting,
    list({
        'overlap': overlap, 'inversion': inversion, 'never_acked': never_acked, 'never_delivered': never_delivered,
        'repeated': repeated, 'gateway': gateway, 'life': life, 'topic': topic, 'subscription': subscription,
        'key_digest': key_digest, 'slot': slot, 'message': message, 'consumer': consumer, 'sent_ns': sent_ns,
        'ended_ns': ended_ns, 'ahead_ns': ahead_ns, 'held': held, 'ahead': ahead, 'before_how': before_how,
        'before_consumer': before_consumer
    }) FILTER (overlap OR inversion OR never_acked OR never_delivered OR repeated) AS found
FROM judged
