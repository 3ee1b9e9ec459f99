//! The features by name, each tried as the Python program's of that name. What is not listed this client does not offer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use pulsar::compression::{Compression, CompressionLz4, CompressionSnappy, CompressionZlib, CompressionZstd};
use pulsar::consumer::{ConsumerOptions, DeadLetterPolicy, InitialPosition};
use pulsar::message::proto::schema::Type;
use pulsar::message::proto::{MessageIdData, Schema};
use pulsar::reader::Reader;
use pulsar::routing_policy::RoutingPolicy;
use pulsar::{ProducerOptions, SubType, TokioExecutor};
use regex::Regex;
use tokio::time::{timeout, Instant};

use crate::scene::{
    expect, keyed, receive, receive_numbers, send_numbers, text, Deal, Failure, Received, Scene, Sender, Worker,
    PATIENCE, WORKERS,
};

const BATCH: u32 = 7;
const COUNT: usize = 10;
const PADDING: usize = 200;
const ACK_TIMEOUT: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_secs(4);
/// The broker looks at delayed messages once a second, and gives out what is due until the next look.
const EARLY: Duration = Duration::from_secs(2);
/// How long somebody who may not come tries to.
const STRANGER: Duration = Duration::from_secs(5);
const WAIT_FOR_EXCLUSIVE: i32 = 2;
/// Signed by nobody.
const WRONG_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const RECORD: &str = r#"{"type": "record", "name": "Numbered", "fields": [{"name": "number", "type": "string"}]}"#;

type Seen = Result<String, Failure>;

/// Tries one and returns what was seen; None if this client does not offer it.
pub async fn attempt(scene: Scene, feature: &str) -> Result<Option<String>, Failure> {
    let seen = match feature {
        "key_shared" => Deal::default().run(&scene).await,
        "partitioned" => partitioned(&scene).await,
        "mixed_batches" => mixed_batches(&scene).await,
        "lz4" => compressed(&scene, Compression::Lz4(CompressionLz4::default())).await,
        "zlib" => compressed(&scene, Compression::Zlib(CompressionZlib::default())).await,
        "zstd" => compressed(&scene, Compression::Zstd(CompressionZstd::default())).await,
        "snappy" => compressed(&scene, Compression::Snappy(CompressionSnappy::default())).await,
        "topics" => topics(&scene).await,
        "pattern" => pattern(&scene).await,
        "negative_ack" => negative_ack(&scene).await,
        "ack_timeout" => ack_timeout(&scene).await,
        "dead_letter" => dead_letter(&scene).await,
        "delayed" => delayed(&scene).await,
        "seek_id" => seek_id(&scene).await,
        "seek_time" => seek_time(&scene).await,
        "unsubscribe" => unsubscribe(&scene).await,
        "last_message_id" => last_message_id(&scene).await,
        "schema_string" => with_schema(&scene, Type::String, "").await,
        "schema_json" => with_schema(&scene, Type::Json, RECORD).await,
        "cumulative_ack" => acknowledge_cumulatively(&scene, SubType::KeyShared).await,
        "cumulative_exclusive" => acknowledge_cumulatively(&scene, SubType::Exclusive).await,
        "non_persistent" => non_persistent(scene).await,
        "shared" => Deal { kind: SubType::Shared, ordered: false, ..Default::default() }.run(&scene).await,
        "exclusive" => exclusive(&scene).await,
        "failover" => failover(&scene).await,
        "reader" => reader(&scene).await,
        "exclusive_producer" => exclusive_producer(&scene).await,
        "token" => token(&scene).await,
        _ => return Ok(None),
    };
    seen.map(Some)
}

async fn mixed_batches(scene: &Scene) -> Seen {
    let producing = ProducerOptions { batch_size: Some(BATCH), ..Default::default() };
    Deal { producing, ..Default::default() }.run(scene).await
}

/// This client heeds keys only where it is told to.
async fn partitioned(scene: &Scene) -> Seen {
    let producing = ProducerOptions { routing_policy: Some(RoutingPolicy::RoundRobin), ..Default::default() };
    Deal { producing, ..Default::default() }.run(scene).await
}

async fn compressed(scene: &Scene, codec: Compression) -> Seen {
    let producing = ProducerOptions { compression: Some(codec), ..Default::default() };
    Deal { producing, padding: PADDING, ..Default::default() }.run(scene).await
}

fn two_topics(scene: &Scene) -> Vec<String> {
    vec![format!("{}-1", scene.topic), format!("{}-2", scene.topic)]
}

async fn topics(scene: &Scene) -> Seen {
    let names = two_topics(scene);
    let (topics, wanted) = (names.clone(), names);
    Deal { topics, subscribing: Some(Box::new(move |builder| builder.with_topics(&wanted))), ..Default::default() }
        .run(scene)
        .await
}

async fn pattern(scene: &Scene) -> Seen {
    let topics = two_topics(scene);
    for topic in &topics {
        scene.producer(topic, Default::default()).await?.close().await?;
    }
    let pattern = Regex::new(&format!("{}-.*", scene.topic))?;
    let subscribing = move |builder: crate::scene::Builder| {
        builder.with_lookup_namespace("public/default").with_topic_regex(pattern.clone())
    };
    Deal { topics, subscribing: Some(Box::new(subscribing)), ..Default::default() }.run(scene).await
}

async fn negative_ack(scene: &Scene) -> Seen {
    let (mut consumer, _producer) = scene.begin(SubType::KeyShared, 1).await?;
    let message = receive(&mut consumer).await?;
    consumer.nack(&message).await?;
    again(&mut consumer, &message).await
}

async fn ack_timeout(scene: &Scene) -> Seen {
    let builder = scene.consumer(SubType::KeyShared).with_topic(&scene.topic);
    let mut consumer = builder.with_unacked_message_resend_delay(Some(ACK_TIMEOUT)).build().await?;
    send_numbers(&mut scene.producer(&scene.topic, Default::default()).await?, 0, 1).await?;
    let message = receive(&mut consumer).await?;
    again(&mut consumer, &message).await
}

async fn again(consumer: &mut Worker, before: &Received) -> Seen {
    let message = receive(consumer).await?;
    expect(message.message_id() == before.message_id(), "another message came")?;
    consumer.ack(&message).await?;
    Ok("came again".into())
}

async fn dead_letter(scene: &Scene) -> Seen {
    let dead = format!("{}-dead", scene.topic);
    let mut graves: Worker = scene.consumer(SubType::Shared).with_topic(&dead).build().await?;
    let policy = DeadLetterPolicy { max_redeliver_count: 1, dead_letter_topic: dead };
    let builder = scene.consumer(SubType::KeyShared).with_topic(&scene.topic).with_dead_letter_policy(policy);
    let mut consumer: Worker = builder.build().await?;
    send_numbers(&mut scene.producer(&scene.topic, Default::default()).await?, 0, 1).await?;
    let message = receive(&mut consumer).await?;
    consumer.nack(&message).await?;
    Ok(format!("{} is dead", text(&receive(&mut graves).await?)))
}

async fn delayed(scene: &Scene) -> Seen {
    let (mut consumer, mut producer) = scene.begin(SubType::KeyShared, 0).await?;
    let sent = Instant::now();
    let mut late = keyed("a".into(), "late".into());
    late.deliver_at_time = Some((SystemTime::now() + DELAY).duration_since(UNIX_EPOCH)?.as_millis() as i64);
    producer.send_non_blocking(late).await?.await?;
    let mut came = String::new();
    while came != "late" {
        expect(sent.elapsed() < PATIENCE, "it never came")?;
        producer.send_non_blocking(keyed("b".into(), "now".into())).await?.await?;
        came = text(&receive_numbers(&mut consumer, 1, true).await?[0]);
    }
    expect(sent.elapsed() > DELAY - EARLY, "it came at once")?;
    Ok("came later".into())
}

async fn seek_id(scene: &Scene) -> Seen {
    let (mut consumer, _producer) = scene.begin(SubType::KeyShared, COUNT).await?;
    let messages = receive_numbers(&mut consumer, COUNT, false).await?;
    let fifth = messages.iter().find(|message| text(message) == "4").ok_or("4 did not come")?;
    let id = MessageIdData {
        ledger_id: fifth.message_id().ledger_id,
        entry_id: fifth.message_id().entry_id,
        ..Default::default()
    };
    consumer.seek(None, Some(id), None, scene.client.clone()).await?;
    // This client does not leave out the message that it went to.
    expect_all(&mut consumer, 4, COUNT).await
}

async fn seek_time(scene: &Scene) -> Seen {
    let (mut consumer, mut producer) = scene.begin(SubType::KeyShared, 5).await?;
    receive_numbers(&mut consumer, 5, false).await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let between = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    send_numbers(&mut producer, 5, 5).await?;
    receive_numbers(&mut consumer, 5, false).await?;
    consumer.seek(None, None, Some(between), scene.client.clone()).await?;
    expect_all(&mut consumer, 5, COUNT).await
}

/// Receives as many numbers as there are from first to last, and wants these, in any order.
async fn expect_all(consumer: &mut Worker, first: usize, last: usize) -> Seen {
    let messages = receive_numbers(consumer, last - first, true).await?;
    let mut found: Vec<usize> = messages.iter().filter_map(|message| text(message).parse().ok()).collect();
    found.sort_unstable();
    expect(found == (first..last).collect::<Vec<_>>(), format!("{found:?} came"))?;
    Ok("as expected".into())
}

async fn unsubscribe(scene: &Scene) -> Seen {
    let (mut consumer, _producer) = scene.begin(SubType::KeyShared, 3).await?;
    receive_numbers(&mut consumer, 3, true).await?;
    consumer.unsubscribe().await?;
    expect_all(&mut scene.subscribe(SubType::KeyShared).await?, 0, 3).await
}

async fn last_message_id(scene: &Scene) -> Seen {
    let (mut consumer, mut producer) = scene.begin(SubType::KeyShared, 1).await?;
    let sent = producer.send_non_blocking(keyed("a".into(), "1".into())).await?.await?;
    let sent = sent.message_id.ok_or("no message id")?;
    let found = consumer.get_last_message_id().await?.remove(0);
    let same = (found.ledger_id, found.entry_id) == (sent.ledger_id, sent.entry_id);
    expect(same, format!("{found:?} is not {sent:?}"))?;
    Ok("is the broker's".into())
}

/// This client declares schemas and leaves it to the program to encode.
async fn with_schema(scene: &Scene, kind: Type, definition: &str) -> Seen {
    let schema =
        Schema { name: "numbered".into(), schema_data: definition.into(), r#type: kind as i32, ..Default::default() };
    let options = ConsumerOptions::default().with_initial_position(InitialPosition::Earliest);
    let (options, topic) = (options.with_schema(schema.clone()), scene.topic.clone());
    let subscribing = move |builder: crate::scene::Builder| builder.with_topic(&topic).with_options(options.clone());
    let producing = ProducerOptions { schema: Some(schema), ..Default::default() };
    Deal { producing, subscribing: Some(Box::new(subscribing)), ..Default::default() }.run(scene).await
}

/// Acknowledges all but the last, and wants that alone to come again.
async fn acknowledge_cumulatively(scene: &Scene, kind: SubType) -> Seen {
    let (mut consumer, _producer) = scene.begin(kind, COUNT).await?;
    let messages = receive_numbers(&mut consumer, COUNT, false).await?;
    consumer.cumulative_ack(&messages[COUNT - 2]).await?;
    consumer.close().await?;
    let came = text(&receive(&mut scene.subscribe(kind).await?).await?);
    expect(came == (COUNT - 1).to_string(), "more than the last came again")?;
    Ok("acknowledged".into())
}

async fn non_persistent(mut scene: Scene) -> Seen {
    scene.topic = scene.topic.replacen("persistent://", "non-persistent://", 1);
    Deal::default().run(&scene).await
}

async fn exclusive(scene: &Scene) -> Seen {
    let (mut consumer, _producer) = scene.begin(SubType::Exclusive, COUNT).await?;
    // This client asks again and again.
    let second = timeout(STRANGER, scene.subscribe(SubType::Exclusive)).await;
    expect(!matches!(second, Ok(Ok(_))), "a second consumer was let in")?;
    in_order(&receive_numbers(&mut consumer, COUNT, true).await?)
}

async fn failover(scene: &Scene) -> Seen {
    let mut consumers: Vec<Worker> = Vec::new();
    for name in WORKERS {
        let builder = scene.consumer(SubType::Failover).with_topic(&scene.topic).with_consumer_name(name);
        consumers.push(builder.build().await?);
    }
    let mut producer = scene.producer(&scene.topic, Default::default()).await?;
    send_numbers(&mut producer, 0, 1).await?;
    let active = who_receives(&mut consumers).await?;
    consumers.remove(active).close().await?;
    send_numbers(&mut producer, 1, 1).await?;
    expect(text(&receive(&mut consumers[0]).await?) == "1", "the other got something else")?;
    Ok("taken over".into())
}

async fn who_receives(consumers: &mut [Worker]) -> Result<usize, Failure> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        for (index, consumer) in consumers.iter_mut().enumerate() {
            if let Ok(message) = timeout(Duration::from_millis(50), consumer.try_next()).await {
                consumer.ack(&message?.ok_or("the consumer has ended")?).await?;
                return Ok(index);
            }
        }
    }
    Err("nobody got the message".into())
}

async fn reader(scene: &Scene) -> Seen {
    send_numbers(&mut scene.producer(&scene.topic, Default::default()).await?, 0, COUNT).await?;
    let options = ConsumerOptions::default().with_initial_position(InitialPosition::Earliest).durable(false);
    let builder = scene.client.reader().with_topic(&scene.topic).with_options(options);
    let mut reading: Reader<Vec<u8>, TokioExecutor> = builder.into_reader().await?;
    let last = reading.get_last_message_id().await?;
    let mut messages: Vec<Received> = Vec::new();
    while messages.last().is_none_or(|message| message.message_id().entry_id != last.entry_id) {
        messages.push(timeout(PATIENCE, reading.try_next()).await??.ok_or("the reader has ended")?);
    }
    in_order(&messages)
}

async fn exclusive_producer(scene: &Scene) -> Seen {
    let waiting = ProducerOptions { access_mode: Some(WAIT_FOR_EXCLUSIVE), ..Default::default() };
    let mut owner = scene.producer(&scene.topic, waiting.clone()).await?;
    let (client, topic) = (scene.client.clone(), scene.topic.clone());
    let other = tokio::spawn(async move { client.producer().with_topic(topic).with_options(waiting).build().await });
    send_numbers(&mut owner, 0, COUNT).await?;
    expect(!other.is_finished(), "who waits is told that it owns the topic")?;
    owner.close().await?;
    let mut other: Sender = timeout(PATIENCE, other).await???;
    timeout(PATIENCE, send_numbers(&mut other, COUNT, COUNT)).await??;
    in_order(&receive_numbers(&mut scene.subscribe(SubType::Exclusive).await?, 2 * COUNT, true).await?)
}

async fn token(scene: &Scene) -> Seen {
    send_numbers(&mut scene.producer(&scene.topic, Default::default()).await?, 0, 1).await?;
    match timeout(STRANGER, scene.place.connect(WRONG_TOKEN)).await {
        Ok(Ok(_)) => Err("a stranger was let in".into()),
        _ => Ok("a stranger was refused".into()),
    }
}

fn in_order(messages: &[Received]) -> Seen {
    let found: Vec<String> = messages.iter().map(text).collect();
    let expected: Vec<String> = (0..found.len()).map(|number| number.to_string()).collect();
    expect(found == expected, format!("{found:?} came"))?;
    Ok("in order".into())
}
