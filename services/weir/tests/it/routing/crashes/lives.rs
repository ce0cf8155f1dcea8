//! Real crashes: routing processes that an event takes down, one after the other.

use std::collections::HashMap;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sqlx::PgPool;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use weir_client::{Client, Identity};
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Disposition, RouteRecord};
use weir_routing::handler::{Failure, Handler, Input, Registry, Verdict};
use weir_testkit::TestDb;

use super::DEAD;
use crate::support::{event, replica_of};

/// The address of the database, for the process that may crash.
const DATABASE: &str = "WEIR_TEST_CRASHES_DATABASE";
/// How many events must be in evaluation before the poison acts; those then never return. 0: it acts at once, and
/// the others are decided.
const TOGETHER: &str = "WEIR_TEST_CRASHES_TOGETHER";
const HERE: &str = "routing::crashes::lives::a_process_that_an_event_takes_down";
const NEIGHBOURS: usize = 4;

const DOCUMENT: &str = r#"
scopes:
  - name: s
    bindings: { b: { executor: e } }
    routes:
      - { slot: all, handler: { rust: poisoned }, binding: b, timeout: 60s }
"#;

/// Takes the process down when it is asked about the event `poison`.
struct Poisoned {
    together: usize,
    inside: Mutex<usize>,
    changed: Condvar,
}

impl Handler for Poisoned {
    fn decide(&self, input: &Input) -> Result<Verdict, Failure> {
        let is_poison = input.event.id == "poison";
        if is_poison || self.together > 0 {
            let mut inside = self.inside.lock().expect("no holder panics");
            *inside += 1;
            self.changed.notify_all();
            while !is_poison || *inside < self.together {
                inside = self.changed.wait(inside).expect("no holder panics");
            }
            std::process::abort();
        }
        Ok(Verdict::Match {
            reason: "well".to_owned(),
            attach: Vec::new(),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of its own, which another test starts"]
#[expect(
    clippy::disallowed_methods,
    reason = "the test that starts the process says by environment what it is"
)]
async fn a_process_that_an_event_takes_down() {
    let Ok(url) = std::env::var(DATABASE) else {
        return;
    };
    let together = std::env::var(TOGETHER).expect("set beside the database");
    let handler: Arc<dyn Handler> = Arc::new(Poisoned {
        together: together.parse().expect("a number"),
        inside: Mutex::default(),
        changed: Condvar::new(),
    });
    let registry = Registry::new(HashMap::from([("poisoned".to_owned(), handler)]));
    let (running, _) = replica_of(&url, registry, |config| {
        config.max_route_failures = 2;
        config.route_failure_window = Duration::from_secs(60);
    })
    .await;
    eprintln!("\nlives at {}", running.addr());
    // Until an event or the other test ends it.
    std::future::pending::<()>().await;
}

/// One process.
struct Life {
    child: Child,
    client: Client,
    rest: JoinSet<()>,
}

impl Life {
    async fn start(db: &TestDb, together: usize) -> Life {
        let mut child = Command::new(std::env::current_exe().expect("it runs"))
            .args([HERE, "--exact", "--ignored", "--nocapture"])
            .env(DATABASE, db.url())
            .env(TOGETHER, together.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this very binary");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let find = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                if let Some(address) = line.strip_prefix("lives at ") {
                    return format!("http://{address}");
                }
            }
            panic!("it ended before it was ready");
        };
        let url = tokio::time::timeout(Duration::from_secs(60), find)
            .await
            .expect("it starts");
        let mut rest = JoinSet::new();
        // A full pipe would hold it up.
        rest.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let client =
            Client::connect(&url, Identity::development("demo", "me")).expect("an address");
        Life {
            child,
            client,
            rest,
        }
    }

    async fn crashes(mut self) {
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        self.rest.shutdown().await;
        let status: ExitStatus = ended.expect("it ends").expect("it was started here");
        assert!(!status.success(), "{status}");
    }

    async fn ends(mut self) {
        self.child.kill().await.expect("it lives");
        self.rest.shutdown().await;
    }

    async fn configure(&self) {
        let request = routing::PublishConfigRequest {
            document: DOCUMENT.to_owned(),
            expected_generation: Some(0),
            request_id: String::new(),
        };
        self.client
            .config()
            .publish_config(request)
            .await
            .expect("the configuration is good");
    }

    /// Publishes all at once, each with a key, and returns their uids.
    async fn publish(&self, items: &[(&str, &str)]) -> Vec<String> {
        let item = |(id, key): &(&str, &str)| routing::PublishItem {
            event: Some(event(id, "t", "{}")),
            keys: vec![(*key).to_owned()],
            targets: None,
        };
        let request = routing::PublishBatchRequest {
            scope: "s".to_owned(),
            events: items.iter().map(item).collect(),
            atomic: true,
        };
        let answer = self.client.events().publish_batch(request).await;
        answer
            .expect("accepted")
            .into_inner()
            .results
            .into_iter()
            .map(|r| r.accepted.expect("all or none").uid)
            .collect()
    }

    async fn record(&self, uid: &str) -> Option<RouteRecord> {
        let request = routing::GetEventRequest {
            event: uid.to_owned(),
            ..Default::default()
        };
        let answer = self.client.events().get_event(request).await;
        let event = answer.expect("known").into_inner().event;
        event.expect("always there").route
    }
}

/// Failures and crashes of what is undecided, by position.
async fn pending(pool: &PgPool) -> Vec<(i64, i16, i16)> {
    sqlx::query_as("SELECT seq, failures, crashes FROM weir.pending ORDER BY seq")
        .fetch_all(pool)
        .await
        .expect("a table")
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_an_event_that_takes_the_process_down_fails_and_its_neighbours_do_not() {
    let db = TestDb::new().await;
    // All are in evaluation when the first process dies: nobody can tell who did it.
    let life = Life::start(&db, NEIGHBOURS + 1).await;
    life.configure().await;
    let items = [
        ("one", "1"),
        ("two", "2"),
        ("poison", "p"),
        ("behind", "p"),
        ("three", "3"),
        ("four", "4"),
    ];
    let uids = life.publish(&items).await;
    life.crashes().await;
    let found = pending(db.pool()).await;
    assert_eq!(found, [1, 2, 3, 4, 5, 6].map(|seq| (seq, 0, 0)));

    // Each later process finds the one before dead, and decides the suspects alone: the neighbours well, the poison
    // with its own end.
    for times in 1..=3 {
        let life = Life::start(&db, 0).await;
        db.advance(DEAD).await;
        life.crashes().await;
        let found = pending(db.pool()).await;
        let poison = found.iter().find(|(seq, ..)| *seq == 3);
        assert_eq!(poison, Some(&(3, 0, times)), "{found:?}");
        assert!(
            found.iter().all(|(_, failures, _)| *failures == 0),
            "{found:?}"
        );
    }

    // The third is the first failure; the neighbours are decided by now, and what stands behind it waits.
    let life = Life::start(&db, 0).await;
    db.advance(DEAD).await;
    db.wait_until("the crash is a failure", async |pool| {
        pending(pool).await == [(3, 1, 4), (4, 0, 1)]
    })
    .await;
    // The next is the second, and past the window.
    db.advance(Duration::from_secs(70)).await;
    life.crashes().await;
    let life = Life::start(&db, 0).await;
    db.advance(DEAD).await;
    db.wait_until("all are decided", async |pool| {
        pending(pool).await.is_empty()
    })
    .await;
    for (uid, (id, _)) in uids.iter().zip(items) {
        let record = life.record(uid).await.expect("decided");
        if id == "poison" {
            assert_eq!(record.disposition(), Disposition::Failed);
            assert_eq!(
                (record.reason.as_str(), record.attempts),
                ("handler_crashed", 2)
            );
        } else {
            assert_eq!(record.disposition(), Disposition::Start, "{id}");
            assert_eq!(record.attempts, 0, "{id}");
        }
    }
    life.ends().await;
}
