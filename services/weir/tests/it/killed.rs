//! The real binary, killed and told to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tonic::Code;
use weir_client::{Client, Identity};
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::routing::v1 as routing;
use weir_testkit::TestDb;

use crate::support::event;

/// One scope; two events of a key share a Work.
const DOCUMENT: &str = "
scopes:
  - name: s
    bindings:
      b: { executor: e, lease: 30s, max_attempts: 20 }
    routes:
      - { slot: all, when: 'true', binding: b }
";

/// `weir dev` on a database of the test.
struct Dev {
    child: Child,
    client: Client,
    rest: tokio::task::JoinSet<()>,
}

impl Dev {
    async fn start(db: &TestDb) -> Dev {
        let folder = tempfile::tempdir().expect("a folder");
        let document = folder.path().join("weir.yaml");
        std::fs::write(&document, DOCUMENT).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["dev", "--listen", "127.0.0.1:0", "--config"])
            .arg(&document)
            .env("DATABASE_URL", db.url())
            .env("WEIR_TENANT", "demo")
            .env_remove("WEIR_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary is there");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let find = async {
            let mut seen = Vec::new();
            while let Some(line) = lines.next_line().await.expect("text") {
                if let Some(rest) = line.strip_prefix("weir is ready on ") {
                    return rest.split(':').take(2).collect::<Vec<_>>().join(":");
                }
                seen.push(line);
            }
            panic!("it ended: {seen:?}");
        };
        let address = tokio::time::timeout(Duration::from_secs(60), find)
            .await
            .expect("it starts");
        let mut rest = tokio::task::JoinSet::new();
        // A full pipe would hold it up.
        rest.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let client = Client::connect(
            &format!("http://{address}"),
            Identity::development("demo", "me"),
        )
        .expect("an address");
        Dev {
            child,
            client,
            rest,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().expect("it runs")).expect("a pid");
        kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("it is ours");
    }

    async fn ended(mut self) -> std::process::ExitStatus {
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await;
        self.rest.shutdown().await;
        status
            .expect("it ends within its grace")
            .expect("it was started here")
    }
}

async fn publish(client: &Client, n: usize) -> Result<String, tonic::Status> {
    let request = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event(&n.to_string(), "t", "{}")),
        keys: vec![format!("k/{}", n / 2)],
        targets: None,
    };
    client
        .events()
        .publish(request)
        .await
        .map(|r| r.into_inner().uid)
}

async fn register(client: &Client) {
    let request = lifecycle::RegisterExecutorRequest {
        executor: "e".to_owned(),
        ..Default::default()
    };
    client
        .executor()
        .register_executor(request)
        .await
        .expect("registered");
}

/// Publishes these at once and kills or stops the process when so many were acknowledged.
async fn publish_until(
    dev: Dev,
    ids: std::ops::Range<usize>,
    after: usize,
    signal: Signal,
) -> (BTreeMap<usize, String>, std::process::ExitStatus) {
    let acknowledged = Mutex::new(BTreeMap::new());
    let one = |n: usize| {
        let (dev, acknowledged) = (&dev, &acknowledged);
        async move {
            match publish(&dev.client, n).await {
                Ok(uid) => {
                    let mut all = acknowledged.lock().expect("no holder panics");
                    all.insert(n, uid);
                    if all.len() == after {
                        dev.signal(signal);
                    }
                }
                Err(status) => assert!(
                    matches!(
                        status.code(),
                        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
                    ),
                    "{status:?}"
                ),
            }
        }
    };
    // Eight callers, each with a call under way at any time.
    let ids: Vec<usize> = ids.collect();
    let callers = (0..8).map(|lane| {
        let mine: Vec<usize> = ids.iter().copied().skip(lane).step_by(8).collect();
        let one = &one;
        async move {
            for n in mine {
                one(n).await;
            }
        }
    });
    join_all(callers).await;
    let status = dev.ended().await;
    (acknowledged.into_inner().expect("no holder panics"), status)
}

#[tokio::test(flavor = "multi_thread")]
async fn o06_a_kill_during_publishing_and_during_work_loses_and_doubles_nothing() {
    const EVENTS: usize = 160;
    let db = TestDb::new().await;
    let dev = Dev::start(&db).await;
    let (mut acknowledged, status) = publish_until(dev, 0..EVENTS, 60, Signal::KILL).await;
    assert!(!status.success());
    assert!(
        acknowledged.len() >= 60 && acknowledged.len() < EVENTS,
        "{} were acknowledged",
        acknowledged.len()
    );

    // Everything acknowledged is there under its uid; what was not is published again, at no risk.
    let dev = Dev::start(&db).await;
    for n in 0..EVENTS {
        let uid = publish(&dev.client, n).await.expect("accepted");
        assert_eq!(
            *acknowledged.entry(n).or_insert_with(|| uid.clone()),
            uid,
            "{n}"
        );
    }
    db.wait_until("every event is routed", async |pool| {
        sqlx::query_scalar("SELECT count(*) = 0 FROM weir.pending")
            .fetch_one(pool)
            .await
            .expect("a table")
    })
    .await;

    // Work: some complete, some are under way when the process dies, and their workers know nothing.
    register(&dev.client).await;
    let mut consumed = Vec::new();
    let claim = async |client: &Client, most: i32| {
        let spec = lifecycle::ClaimSpec {
            binding: "b".to_owned(),
            owner: "w".to_owned(),
            ..Default::default()
        };
        let request = lifecycle::ClaimOnceRequest {
            spec: Some(spec),
            max_works: most,
            wait: None,
        };
        client
            .executor()
            .claim_once(request)
            .await
            .expect("claimable")
            .into_inner()
            .works
    };
    let complete = async |client: &Client, work: &lifecycle::ClaimedWork| {
        let request = lifecycle::CompleteRequest {
            lease: work.lease.clone(),
            result: String::new(),
        };
        client.executor().complete(request).await
    };
    let claimed = claim(&dev.client, 40).await;
    assert_eq!(claimed.len(), 40);
    let (done, under_way) = claimed.split_at(20);
    let mut killed = false;
    let mut unsure = Vec::new();
    for (n, work) in done.iter().enumerate() {
        if n == 10 {
            dev.signal(Signal::KILL);
            killed = true;
        }
        match complete(&dev.client, work).await {
            Ok(_) => consumed.extend(work.inputs.iter().map(|e| e.uid.clone())),
            Err(_) => {
                assert!(killed);
                unsure.push(work);
            }
        }
    }
    assert!(!dev.ended().await.success());

    let dev = Dev::start(&db).await;
    // A repeat of a Complete whose answer was lost answers what was decided (rule o08).
    for work in unsure {
        complete(&dev.client, work)
            .await
            .expect("the lease still holds");
        consumed.extend(work.inputs.iter().map(|e| e.uid.clone()));
    }
    db.advance(Duration::from_secs(31)).await;
    for work in under_way {
        assert_eq!(
            crate::outside::reason(complete(&dev.client, work).await),
            "LEASE_LOST"
        );
    }
    loop {
        let works = claim(&dev.client, 40).await;
        if works.is_empty() {
            break;
        }
        for work in &works {
            complete(&dev.client, work)
                .await
                .expect("it holds the lease");
            consumed.extend(work.inputs.iter().map(|e| e.uid.clone()));
        }
    }
    let all: BTreeSet<&String> = acknowledged.values().collect();
    assert_eq!(all.len(), EVENTS);
    assert_eq!(consumed.len(), EVENTS, "each input is consumed once");
    assert_eq!(consumed.iter().collect::<BTreeSet<_>>(), all);
    let (events, decided, inputs, open): (i64, i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM weir.event), (SELECT count(*) FROM weir.event WHERE disposition IN (1, 2)), \
                (SELECT count(DISTINCT uid) FROM weir.input), (SELECT count(*) FROM weir.work WHERE state <> 5 OR consumed <> last_input)",
    )
    .fetch_one(db.pool())
    .await
    .expect("tables");
    let expected = i64::try_from(EVENTS).expect("small");
    assert_eq!(
        (events, decided, inputs, open),
        (expected, expected, expected, 0)
    );
    let works: i64 = sqlx::query_scalar("SELECT count(*) FROM weir.work")
        .fetch_one(db.pool())
        .await
        .expect("a table");
    assert_eq!(
        works,
        expected / 2,
        "the two events of a key share one work"
    );
    dev.signal(Signal::TERM);
    assert_eq!(dev.ended().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_sigterm_during_publishing_drains_and_exits_0() {
    const EVENTS: usize = 200;
    let db = TestDb::empty().await;
    let dev = Dev::start(&db).await;
    let (acknowledged, status) = publish_until(dev, 0..EVENTS, 50, Signal::TERM).await;
    assert_eq!(status.code(), Some(0));
    assert!(acknowledged.len() >= 50, "{}", acknowledged.len());
    let stored: Vec<String> = sqlx::query_scalar("SELECT uid::text FROM weir.event")
        .fetch_all(db.pool())
        .await
        .expect("a table");
    let stored: BTreeSet<&String> = stored.iter().collect();
    assert!(
        acknowledged.values().all(|uid| stored.contains(uid)),
        "what was acknowledged is there"
    );
    let sessions: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weir-dev%'")
        .fetch_one(db.pool())
        .await
        .expect("a view");
    assert_eq!(sessions, 0, "it left no session");
}
