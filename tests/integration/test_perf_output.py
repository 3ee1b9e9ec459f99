"""The readers of what load clients print, against lines that were captured from them."""

from __future__ import annotations

from integration.perf_output import Latency, Sample, parse

# pulsar-perf 4.0.8 against Pulsar 4.2.4, and Go's perf of pulsar-client-go, cut to what surrounds the numbers.
JAVA_PRODUCE = """\
2026-11-21T03:17:29,116 INFO  PerformanceProducer - Created 1 producers
2026-11-21T03:17:32,850 INFO  ProducerStatsRecorderImpl - [persistent://public/default/perf] [standalone-0-0] \
--- Publish throughput: 1999.47 msg/s --- 1.53 Mbit/s --- Latency: med: 96.000 ms - 95pct: 284.000 ms
2026-11-21T03:17:33,493 INFO  PerformanceProducer - Throughput produced:    7690 msg ---    767.4 msg/s \
---      0.6 Mbit/s  --- failure      0.0 msg/s --- Latency: mean: 117.272 ms - med:  85.375 - 95pct: 289.903 \
- 99pct: 348.283 - 99.9pct: 369.051 - 99.99pct: 370.885 - Max: 370.915
2026-11-21T03:17:41,122 INFO  PerformanceProducer - ------------- DONE (reached the maximum duration: [12 seconds])
2026-11-21T03:17:43,511 INFO  PerformanceProducer - Aggregated throughput stats --- 24005 records sent --- \
1174.476 msg/s --- 0.896 Mbit/s
2026-11-21T03:17:43,610 INFO  PerformanceProducer - Aggregated latency stats --- Latency: mean:  47.879 ms \
- med:  10.287 - 95pct: 224.335 - 99pct: 310.685 - 99.9pct: 360.857 - 99.99pct: 370.367 - 99.999pct: 370.915 \
- Max: 370.915
"""
JAVA_CONSUME = """\
2026-11-21T03:17:32,409 INFO  ConsumerStatsRecorderImpl - [persistent://public/default/perf] [s1] [uS37U] \
Prefetched messages: 0 --- Consume throughput received: 1411.49 msgs/s --- 1.08 Mbit/s --- Ack sent rate: 1411.49
2026-11-21T03:17:40,945 INFO  PerformanceConsumer - Throughput received:   20845 msg --- 2084.294  msg/s \
--- 1.590 Mbit/s  --- Latency: mean: 153.010 ms - med: 30 - 95pct: 682 - 99pct: 782 - 99.9pct: 821 \
- 99.99pct: 835 - Max: 835
2026-11-21T03:17:41,022 INFO  PerformanceConsumer - Aggregated throughput stats --- 21165 records received \
--- 2081.600 msg/s --- 1.588 Mbit/s --- AckRate: 2081.6004415355724  msg/s --- ack failed 0 msg
2026-11-21T03:17:41,059 INFO  PerformanceConsumer - Aggregated latency stats --- Latency: mean: 151.911 ms \
- med: 30 - 95pct: 682 - 99pct: 781 - 99.9pct: 821 - 99.99pct: 835 - 99.999pct: 835 - Max: 835
"""
GO_PRODUCE = (
    'time="03:16:35.202" level=info msg="Stats - Publish rate: 1099.6 msg/s -    8.6 Mbps - '
    r'\n\t\t\t\tLatency ms: 50%   6.6 -95% 108.0 - 99% 236.2 - 99.9% 236.2 - max  236.2"'
)
GO_CONSUME = 'time="03:16:35.179" level=info msg="Stats - Consume rate: 1096.4 msg/s -    8.6 Mbps"'


def test_javas_producer_gives_intervals_and_a_total() -> None:
    """The interval counts messages so far; the total takes its latency from the line after it."""
    assert parse(JAVA_PRODUCE) == [
        Sample(767.4, 0.6, 7690, Latency(85.375, 289.903, 348.283, 369.051, 370.915, 117.272)),
        Sample(1174.476, 0.896, 24005, Latency(10.287, 224.335, 310.685, 360.857, 370.915, 47.879), is_total=True),
    ]


def test_javas_consumer_gives_intervals_and_a_total() -> None:
    """Its latencies are whole milliseconds, and what its client's own statistics print is not counted again."""
    assert parse(JAVA_CONSUME) == [
        Sample(2084.294, 1.59, 20845, Latency(30, 682, 782, 821, 835, 153.01)),
        Sample(2081.6, 1.588, 21165, Latency(30, 682, 781, 821, 835, 151.911), is_total=True),
    ]


def test_an_interval_that_is_printed_after_the_total_comes_before_it() -> None:
    """Another thread prints intervals: seen with 19,161 messages after a total of 20,000."""
    lines = JAVA_CONSUME.splitlines(keepends=True)
    interval, total, latency = (line for line in lines if "PerformanceConsumer" in line)
    assert parse(total + interval + latency) == parse(JAVA_CONSUME)


def test_gos_client_gives_rates_and_its_producer_latencies() -> None:
    """Go escapes the line break before the latencies and prints neither counts nor totals."""
    assert parse(GO_PRODUCE) == [Sample(1099.6, 8.6, latency=Latency(6.6, 108.0, 236.2, 236.2, 236.2))]
    assert parse(GO_CONSUME) == [Sample(1096.4, 8.6)]


def test_a_total_that_was_cut_off_before_its_latency_is_still_a_total() -> None:
    """A log that is read while the tool writes it ends anywhere."""
    cut = JAVA_PRODUCE[: JAVA_PRODUCE.index("Aggregated latency")]
    assert parse(cut)[-1] == Sample(1174.476, 0.896, 24005, is_total=True)


def test_other_output_gives_nothing() -> None:
    """Errors and client logs are no samples."""
    assert parse("Exception in thread main\n\n--- Publish throughput: 12 msg/s --- 1 Mbit/s\n") == []
