//! One feature's own client and topics, and keyed messages dealt to two workers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::TryStreamExt;
use pulsar::consumer::{ConsumerOptions, InitialPosition, Message};
use pulsar::producer::{self, SendFuture};
use pulsar::{
    Authentication, Consumer, ConsumerBuilder, OperationRetryOptions, Producer, ProducerOptions, Pulsar, SubType,
    TokioExecutor,
};
use tokio::time::{timeout, Instant};

pub const KEYS: usize = 20;
pub const ROUNDS: usize = 3;
pub const SUBSCRIPTION: &str = "s";
pub const WORKERS: [&str; 2] = ["a", "b"];
/// Of every answer and every message: only a fault exhausts it, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long one of several consumers is listened to before the next.
const SLICE: Duration = Duration::from_millis(10);

pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type Worker = Consumer<Vec<u8>, TokioExecutor>;
pub type Builder = ConsumerBuilder<TokioExecutor>;
pub type Sender = Producer<TokioExecutor>;
pub type Received = Message<Vec<u8>>;

/// Where to connect, and as whom.
#[derive(Clone)]
pub struct Place {
    pub service_url: String,
    pub prefix: String,
    pub token: String,
}

impl Place {
    pub async fn connect(&self, token: &str) -> Result<Pulsar<TokioExecutor>, pulsar::Error> {
        let auth = Authentication { name: "token".into(), data: token.as_bytes().to_vec() };
        let answers = OperationRetryOptions { operation_timeout: PATIENCE, ..Default::default() };
        let builder = Pulsar::builder(&self.service_url, TokioExecutor).with_auth(auth);
        builder.with_operation_retry_options(answers).build().await
    }
}

/// One feature's own client and topics.
pub struct Scene {
    pub place: Place,
    pub topic: String,
    pub client: Pulsar<TokioExecutor>,
}

impl Scene {
    pub async fn new(place: &Place, feature: &str) -> Result<Self, Failure> {
        let client = place.connect(&place.token).await?;
        Ok(Self { place: place.clone(), topic: format!("{}{feature}", place.prefix), client })
    }

    /// A consumer from the beginning of whatever topic it will be given.
    pub fn consumer(&self, kind: SubType) -> Builder {
        let options = ConsumerOptions::default().with_initial_position(InitialPosition::Earliest);
        let builder = self.client.consumer().with_subscription(SUBSCRIPTION).with_subscription_type(kind);
        builder.with_options(options)
    }

    pub async fn subscribe(&self, kind: SubType) -> Result<Worker, Failure> {
        Ok(self.consumer(kind).with_topic(&self.topic).build().await?)
    }

    pub async fn producer(&self, topic: &str, options: ProducerOptions) -> Result<Sender, Failure> {
        Ok(self.client.producer().with_topic(topic).with_options(options).build().await?)
    }

    /// What most trials need: a consumer, and so many messages of a few keys, each with its number.
    pub async fn begin(&self, kind: SubType, count: usize) -> Result<(Worker, Sender), Failure> {
        let consumer = self.subscribe(kind).await?;
        let mut producer = self.producer(&self.topic, Default::default()).await?;
        send_numbers(&mut producer, 0, count).await?;
        Ok((consumer, producer))
    }
}

pub fn keyed(key: String, payload: Vec<u8>) -> producer::Message {
    producer::Message { payload, partition_key: Some(key), ..Default::default() }
}

pub async fn send_numbers(producer: &mut Sender, first: usize, count: usize) -> Result<(), Failure> {
    for number in first..first + count {
        let message = keyed(format!("k{}", number % 3), number.to_string().into());
        producer.send_non_blocking(message).await?.await?;
    }
    Ok(())
}

pub async fn receive(consumer: &mut Worker) -> Result<Received, Failure> {
    Ok(timeout(PATIENCE, consumer.try_next()).await??.ok_or("the consumer has ended")?)
}

pub async fn receive_numbers(consumer: &mut Worker, count: usize, acknowledge: bool) -> Result<Vec<Received>, Failure> {
    let mut messages = Vec::new();
    for _ in 0..count {
        let message = receive(consumer).await?;
        if acknowledge {
            consumer.ack(&message).await?;
        }
        messages.push(message);
    }
    Ok(messages)
}

pub fn text(message: &Received) -> String {
    String::from_utf8_lossy(&message.payload.data).trim_end_matches('.').into()
}

pub fn expect(condition: bool, text: impl Into<String>) -> Result<(), Failure> {
    if condition {
        Ok(())
    } else {
        Err(text.into().into())
    }
}

/// How keyed messages go to two workers; most features are one of its fields.
pub struct Deal {
    pub kind: SubType,
    /// Where to produce, by default to the scene's topic; each topic has keys of its own.
    pub topics: Vec<String>,
    pub producing: ProducerOptions,
    /// Says what a worker subscribes to, by default the scene's topic.
    pub subscribing: Option<Box<dyn Fn(Builder) -> Builder + Send + Sync>>,
    pub padding: usize,
    pub ordered: bool,
}

impl Default for Deal {
    fn default() -> Self {
        let (topics, producing) = (Vec::new(), ProducerOptions::default());
        Self { kind: SubType::KeyShared, topics, producing, subscribing: None, padding: 0, ordered: true }
    }
}

impl Deal {
    /// Sends: each key must come whole, in order, to one of two workers, and both get some.
    pub async fn run(mut self, scene: &Scene) -> Result<String, Failure> {
        let mut workers = Vec::new();
        for name in WORKERS {
            let builder = scene.consumer(self.kind).with_consumer_name(name);
            let builder = match &self.subscribing {
                Some(subscribing) => subscribing(builder),
                None => builder.with_topic(&scene.topic),
            };
            workers.push((name, builder.build::<Vec<u8>>().await?));
        }
        if self.topics.is_empty() {
            self.topics.push(scene.topic.clone());
        }
        self.send(scene).await?;
        let received = collect(&mut workers).await?;
        if self.ordered {
            audit(&received)?;
        }
        Ok(format!("{} messages", received.len()))
    }

    async fn send(&self, scene: &Scene) -> Result<(), Failure> {
        let mut producers = Vec::new();
        for topic in &self.topics {
            producers.push(scene.producer(topic, self.producing.clone()).await?);
        }
        let mut sent: Vec<SendFuture> = Vec::new();
        for number in 0..ROUNDS {
            for key in 0..KEYS {
                let payload = format!("{number}{}", ".".repeat(self.padding)).into_bytes();
                let producer = key % self.topics.len();
                sent.push(producers[producer].send_non_blocking(keyed(format!("k{key}"), payload)).await?);
            }
        }
        if self.producing.batch_size.is_some() {
            for producer in &mut producers {
                producer.send_batch().await?;
            }
        }
        timeout(PATIENCE, futures::future::try_join_all(sent)).await??;
        Ok(())
    }
}

type Dealt = Vec<(&'static str, String, String)>;

async fn collect(workers: &mut [(&'static str, Worker)]) -> Result<Dealt, Failure> {
    let mut received = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while received.len() < KEYS * ROUNDS {
        expect(Instant::now() < deadline, format!("{} of {} messages came", received.len(), KEYS * ROUNDS))?;
        for (name, consumer) in workers.iter_mut() {
            while let Ok(message) = timeout(SLICE, consumer.try_next()).await {
                let message = message?.ok_or("the consumer has ended")?;
                received.push((*name, message.key().unwrap_or_default(), text(&message)));
                consumer.ack(&message).await?;
            }
        }
    }
    Ok(received)
}

fn audit(received: &Dealt) -> Result<(), Failure> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut numbers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, key, number) in received {
        owners.entry(key).or_default().insert(name);
        numbers.entry(key).or_default().push(number);
    }
    let expected: Vec<String> = (0..ROUNDS).map(|number| number.to_string()).collect();
    let split = owners.values().filter(|names| names.len() > 1).count();
    let wrong = numbers.values().filter(|found| **found != expected).count();
    let busy: BTreeSet<_> = received.iter().map(|(name, _, _)| name).collect();
    expect(owners.len() == KEYS, format!("{} of {KEYS} keys came", owners.len()))?;
    expect(split == 0, format!("{split} of {KEYS} keys were at two workers"))?;
    expect(wrong == 0, format!("{wrong} of {KEYS} keys were out of order"))?;
    expect(busy.len() == WORKERS.len(), "one worker got nothing")
}
