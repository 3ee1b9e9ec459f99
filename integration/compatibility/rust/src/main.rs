//! Tries features of the Rust client. Arguments: service URL, prefix of topics, directory of keys, features; the token
//! is in the environment. Prints what the Python program beside it prints.

mod features;
mod scene;

use std::sync::Arc;

use serde_json::{json, Value};
use tokio::sync::Semaphore;

use features::attempt;
use scene::{Failure, Place, Scene};

const AT_ONCE: usize = 4;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("too few arguments");
    let (service_url, prefix, _keys) = (next()?, next()?, next()?);
    let place = Place { service_url, prefix, token: std::env::var("KEYLINE_PROBE_TOKEN")? };
    println!("{}", json!({"library": "pulsar 6.9.1"}));
    let hello = Scene::new(&place, "hello").await?;
    let _kept = hello.producer(&hello.topic, Default::default()).await?;
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let running: Vec<_> = arguments
        .map(|feature| {
            let (place, slots) = (place.clone(), slots.clone());
            tokio::spawn(async move {
                let _slot = slots.acquire_owned().await;
                println!("{}", outcome(&place, &feature).await);
            })
        })
        .collect();
    futures::future::join_all(running).await;
    std::process::exit(0);
}

async fn outcome(place: &Place, feature: &str) -> Value {
    let result = match Scene::new(place, feature).await {
        Ok(scene) => attempt(scene, feature).await,
        Err(failure) => Err(failure),
    };
    match result {
        Ok(Some(detail)) => json!({"feature": feature, "ok": true, "detail": detail}),
        Ok(None) => json!({"feature": feature, "ok": null, "detail": "not in this client"}),
        Err(failure) => json!({"feature": feature, "ok": false, "detail": failure.to_string()}),
    }
}
