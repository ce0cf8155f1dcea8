//! Streams.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_kernel::{Classify as _, Disposition};

use super::House;
use crate::query::event::Standing;
use crate::query::watch::{Message, Start, Watch};

async fn next(watch: &mut Watch) -> (String, bool, String) {
    let Message {
        event,
        update,
        resume_token,
    } = watch.next().await.expect("there is one");
    (event.envelope.id, update, resume_token)
}

#[tokio::test]
async fn r19_a_watcher_gets_each_event_and_once_more_its_record() {
    let house = House::new().await;
    let early = house.accept("a", &["early"]).await;
    let mut now = house.watch(Start::Now).await;
    let mut all = house.watch(Start::Oldest).await;
    assert_eq!(next(&mut all).await.0, "early");
    let late = house.accept("b", &["late", "later"]).await;
    house.decide(late[1], Disposition::Drop, None).await;
    let (id, update, token) = next(&mut now).await;
    assert_eq!((id.as_str(), update), ("late", false));
    assert_eq!(next(&mut now).await.0, "later");
    house.decide(early[0], Disposition::Drop, None).await;
    house.decide(late[0], Disposition::Failed, None).await;
    let message = now.next().await.expect("it was decided");
    assert!(
        message.update
            && matches!(&message.event.standing, Standing::Routed(r) if r.disposition == Disposition::Failed)
    );
    // Whoever goes on elsewhere after the first message gets what came after it, and nothing twice.
    let mut resumed = house.watch(Start::Resume(&token)).await;
    let (first, second) = (next(&mut resumed).await, next(&mut resumed).await);
    assert_eq!((first.0.as_str(), first.1), ("late", true));
    assert_eq!(
        (second.0.as_str(), second.1),
        ("later", false),
        "decided when it was sent"
    );
    house.accept("a", &["last"]).await;
    assert_eq!(next(&mut resumed).await.0, "last");
    assert_eq!(next(&mut now).await.0, "last");
    let mut rest = BTreeSet::new();
    for _ in 0..4 {
        let (id, update, _) = next(&mut all).await;
        rest.insert((id, update));
    }
    let expected = [
        ("early", true),
        ("late", false),
        ("later", false),
        ("last", false),
    ];
    assert_eq!(
        rest,
        expected
            .into_iter()
            .map(|(id, update)| (id.to_owned(), update))
            .collect()
    );
}

#[tokio::test]
async fn r19_a_watcher_ends_with_the_server() {
    let house = House::new().await;
    let (hint, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
    let watch = Watch::start(
        house.db.clone(),
        house.tenant,
        None,
        Start::Now,
        false,
        hint,
        shutdown.clone(),
    );
    let mut watch = watch.await.expect("it starts");
    let (ended, ()) = tokio::join!(watch.next(), async { shutdown.cancel() });
    let ended = ended.expect_err("the server ends");
    assert_eq!(
        (ended.kind(), ended.reason()),
        (weir_kernel::ErrorKind::Unavailable, "SHUTTING_DOWN")
    );
}
