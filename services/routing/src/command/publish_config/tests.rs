//! Publications on a real database.

use weir_kernel::{Classify as _, TenantId};
use weir_pg::Db;
use weir_testkit::TestDb;

use super::{Error, PublishConfig, Published, prepare};
use crate::generation::{Generations, INJECT, INTERRUPT};
use crate::tenant::DEMO;

/// Publishes a document as one caller does.
pub(crate) async fn publish(
    db: &Db,
    tenant: &str,
    document: &str,
    expected: Option<i64>,
    request_id: &str,
) -> Result<Published, Error> {
    let prepared = prepare(document.to_owned()).await?;
    let (tenant, request_id) = (tenant.to_owned(), request_id.to_owned());
    db.run(&PublishConfig::new(
        tenant,
        "ann".to_owned(),
        prepared,
        expected,
        request_id,
    )?)
    .await
}

async fn tenants(db: &TestDb) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM weir.tenant")
        .fetch_one(db.pool())
        .await;
    count.expect("the table is there")
}

#[tokio::test]
async fn of_two_publishers_with_one_expectation_exactly_one_wins() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    assert_eq!(
        publish(&db, "t", DEMO, Some(0), "")
            .await
            .expect("the first")
            .generation,
        1
    );
    let (tenant, _) = weir_ledger::tenant::resolve(&db, "t")
        .await
        .expect("it exists now");
    let mut hold = kit.hold().await;
    hold.hold_config(tenant).await;
    let release = async {
        kit.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (a, b, ()) = tokio::join!(
        publish(&db, "t", DEMO, Some(1), "a"),
        publish(&db, "t", DEMO, Some(1), "b"),
        release
    );
    let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
    assert_eq!(won.expect("one of them").generation, 2);
    let lost = lost.expect_err("only one of them");
    assert!(
        matches!(
            lost,
            Error::Conflict {
                expected: 1,
                current: 2
            }
        ),
        "{lost}"
    );
    assert_eq!(
        (lost.reason(), lost.metadata()),
        (
            "GENERATION_CONFLICT",
            vec![("current_generation", "2".into())]
        )
    );
    assert!(lost.to_string().contains("generation 2 is"), "{lost}");
}

#[tokio::test]
async fn of_two_first_publications_exactly_one_wins() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    // The first stops before its generation, the second at the first one's tenant row.
    let mut hold = kit.hold().await;
    hold.run("LOCK TABLE weir.generation IN EXCLUSIVE MODE")
        .await;
    let release = async {
        kit.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (a, b, ()) = tokio::join!(
        publish(&db, "t", DEMO, Some(0), ""),
        publish(&db, "t", DEMO, Some(0), ""),
        release
    );
    let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
    assert_eq!(won.expect("one of them").generation, 1);
    assert!(
        matches!(
            lost,
            Err(Error::Conflict {
                expected: 0,
                current: 1
            })
        ),
        "{lost:?}"
    );
    assert_eq!(tenants(&kit).await, 1);
}

#[tokio::test]
async fn o08_a_repeated_request_answers_the_first_result() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    let first = publish(&db, "t", DEMO, Some(0), "r1")
        .await
        .expect("the first");
    assert_eq!(
        publish(&db, "t", DEMO, Some(0), "r1")
            .await
            .expect("a repeat"),
        first
    );
    let other = publish(&db, "t", DEMO, Some(1), "r1")
        .await
        .expect_err("other content");
    assert_eq!(other.reason(), "REQUEST_CONFLICT");
    // Without the request id an equal document is a new generation: it is how everything is tried again.
    let again = publish(&db, "t", DEMO, Some(1), "")
        .await
        .expect("the expectation is right");
    assert_eq!((again.generation, &again.digest), (2, &first.digest));
}

#[tokio::test]
async fn what_is_refused_stores_nothing() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    let missing = publish(&db, "t", DEMO, None, "")
        .await
        .expect_err("no expectation");
    assert_eq!(
        (missing.kind(), missing.reason()),
        (
            weir_kernel::ErrorKind::InvalidArgument,
            "GENERATION_REQUIRED"
        )
    );
    assert!(
        missing.to_string().ends_with("the current generation is 0"),
        "{missing}"
    );
    assert!(matches!(
        publish(&db, "t", DEMO, Some(3), "").await,
        Err(Error::Conflict {
            expected: 3,
            current: 0
        })
    ));
    let wrong = "scopes:\n  - name: root\n    colour: red\n    routes: [ { slot: a, when: '1 +', policy: drop } ]\n";
    let invalid = publish(&db, "t", wrong, Some(0), "")
        .await
        .expect_err("it has two faults");
    assert_eq!(invalid.reason(), "CONFIG_INVALID");
    let violations = invalid.violations();
    assert_eq!(violations[0].field, "scopes[0].colour");
    assert!(
        violations[0].description.starts_with("line 3, column "),
        "{}",
        violations[0].description
    );
    let nul = publish(&db, "t", "scopes: [\0]", Some(0), "")
        .await
        .expect_err("text has no NUL");
    assert_eq!(
        (nul.reason(), nul.violations()[0].field.as_str()),
        ("CONFIG_INVALID", "document")
    );
    assert!(matches!(
        publish(&db, "t", DEMO, Some(-1), "").await,
        Err(Error::Field(_))
    ));
    assert_eq!(tenants(&kit).await, 0);
}

#[tokio::test]
async fn r02_names_keep_their_numbers_and_what_is_gone_keeps_its_mark() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    let first = "
scopes:
  - name: root
    limits: { depth: 7 }
    bindings: { b: { executor: x, capabilities: [inject], priority: 3, lease: 1500ms } }
    routes: [ { slot: one, when: 'true', binding: b, policy: queue } ]
  - { name: gone, parent: root }
  - { name: leaf, parent: root, brake: { after_refusals_per_minute: 9 } }
";
    let second = "
scopes:
  - name: root
    bindings: { a: { executor: x }, b: { executor: x } }
    routes: [ { slot: zero, when: 'true', binding: a, policy: queue }, { slot: one, when: 'true', binding: b, policy: queue } ]
  - { name: leaf, parent: root, routes: [ { slot: zero, disabled: true } ] }
";
    publish(&db, "t", first, Some(0), "")
        .await
        .expect("it is valid");
    let generations = Generations::new(db.clone());
    let one = generations.current("t").await.expect("it compiles");
    let id = |name| one.scope_id(name).expect("it is in the document");
    let (root, gone, leaf) = (id("root"), id("gone"), id("leaf"));
    let binding = one.binding_id(leaf, "b").expect("it is inherited");
    assert_ne!(
        Some(binding),
        one.binding_id(root, "b"),
        "a binding is one scope's"
    );
    let settings = one.settings(leaf, "b").expect("it is inherited");
    assert_eq!(
        (
            settings.executor.as_deref(),
            settings.capabilities,
            settings.priority
        ),
        (Some("x"), INJECT, 3)
    );
    let stored: (i16, i32, Option<i32>, f64, i16) = sqlx::query_as(
        "SELECT l.max_depth, l.per_minute, l.brake_after, extract(epoch FROM s.lease)::float8, s.capabilities \
         FROM weir.scope_limits l, weir.binding_settings s \
         WHERE l.generation = 1 AND l.scope_id = $1 AND s.generation = 1 AND s.binding_id = $2",
    )
    .bind(leaf.0)
    .bind(binding.0)
    .fetch_one(kit.pool())
    .await
    .expect("both were written");
    assert_eq!(stored, (7, 128, Some(9), 1.5, INJECT));

    publish(&db, "t", second, Some(1), "")
        .await
        .expect("it is valid");
    let two = generations.refresh("t").await.expect("it compiles");
    assert_eq!(two.number, 2);
    assert_eq!(
        (
            two.scope_id("root"),
            two.scope_id("leaf"),
            two.scope_id("gone")
        ),
        (Some(root), Some(leaf), None)
    );
    assert_eq!(two.binding_id(leaf, "b"), Some(binding));
    assert_eq!(two.route_id(root, "one"), one.route_id(root, "one"));
    assert_ne!(two.route_id(root, "zero"), one.route_id(root, "one"));
    assert_eq!(two.route_id(leaf, "zero"), None, "it is switched off there");
    assert_eq!(two.scope_name(gone), Some("gone"), "records still name it");
    assert_eq!(two.binding_name(binding), Some((leaf, "b")));
    let route = two.route_id(leaf, "one").expect("it is inherited");
    assert_eq!(two.route_slot(route), Some((leaf, "one")));
    let marks: Vec<(String, i64)> =
        sqlx::query_as("SELECT name, generation FROM weir.scope ORDER BY name")
            .fetch_all(kit.pool())
            .await
            .expect("the table is there");
    assert_eq!(
        marks,
        [("gone".into(), 1), ("leaf".into(), 2), ("root".into(), 2)]
    );
    assert_eq!(
        generations
            .by_id(two.tenant)
            .await
            .expect("it is known")
            .number,
        2
    );
    assert_eq!(
        generations.tenants().await.expect("there is one"),
        [two.tenant]
    );
}

#[tokio::test]
async fn r11_a_claim_that_no_registration_proves_is_a_warning() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    let document = "
scopes:
  - name: root
    bindings:
      none: {}
      some: { executor: x, capabilities: [inject, interrupt] }
    routes: [ { slot: one, when: 'has(event.subject)', binding: some, policy: queue }, { slot: two, when: 'true', binding: none, policy: queue } ]
";
    let first = publish(&db, "t", document, Some(0), "")
        .await
        .expect("a warning refuses nothing");
    let found: Vec<_> = first
        .warnings
        .iter()
        .map(|w| (w.path.as_str(), w.line, w.reason))
        .collect();
    assert_eq!(
        found,
        [(
            "scopes[0].bindings.some.executor",
            6,
            "executor_not_registered"
        )]
    );
    for (revision, capabilities) in [(1_i64, INJECT | INTERRUPT), (2, INJECT)] {
        sqlx::query("INSERT INTO weir.executor_registration SELECT tenant_id, 'x', $1, $2, 'ann', now() FROM weir.tenant")
            .bind(revision)
            .bind(capabilities)
            .execute(kit.pool())
            .await
            .expect("the table is there");
    }
    let second = publish(&db, "t", document, Some(1), "")
        .await
        .expect("a warning refuses nothing");
    let found: Vec<_> = second
        .warnings
        .iter()
        .map(|w| (w.path.as_str(), w.message.as_str()))
        .collect();
    let message = "the executor `x` is not registered for `interrupt`";
    assert_eq!(
        found,
        [("scopes[0].bindings.some.capabilities", message)],
        "the newest revision counts"
    );
}

#[tokio::test]
async fn a_stored_document_that_does_not_compile_any_more_harms_nobody_else() {
    let kit = TestDb::new().await;
    let db = kit.open("routing");
    for tenant in ["good", "bad"] {
        publish(&db, tenant, DEMO, Some(0), "")
            .await
            .expect("it is valid");
    }
    let spoil = "UPDATE weir.generation SET document = 'scopes: 7' FROM weir.tenant t \
                 WHERE t.tenant_id = generation.tenant_id AND t.name = 'bad'";
    sqlx::query(spoil)
        .execute(kit.pool())
        .await
        .expect("the row is there");
    let generations = Generations::new(db.clone());
    for _ in 0..2 {
        let refused = generations
            .current("bad")
            .await
            .expect_err("it does not compile");
        assert_eq!(
            (refused.reason(), refused.metadata()),
            ("CONFIG_UNUSABLE", vec![("generation", "1".into())])
        );
    }
    assert!(generations.current("good").await.is_ok());
    assert!(
        generations.tenant("bad").await.is_ok(),
        "its events can still be read"
    );
    let absent = generations
        .current("absent")
        .await
        .expect_err("it never published");
    assert_eq!(absent.reason(), "TENANT_NOT_FOUND");
    assert_eq!(
        generations
            .by_id(TenantId(999))
            .await
            .expect_err("no such tenant")
            .reason(),
        "TENANT_NOT_FOUND"
    );
    publish(&db, "bad", DEMO, Some(1), "")
        .await
        .expect("a corrected one");
    assert_eq!(
        generations
            .refresh("bad")
            .await
            .expect("it compiles")
            .number,
        2
    );
}
