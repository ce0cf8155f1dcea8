//! Single events.

use uuid::Uuid;
use weir_kernel::envelope::{Envelope, Payload};
use weir_kernel::{Classify as _, Disposition, EventUid, PendingState, RouteId};

use super::{DOCUMENT, House};
use crate::command::EventRef;
use crate::command::publish_config::tests::publish;
use crate::query::event::{Standing, read};
use crate::query::list::ListEvents;
use crate::route::refusals::pack;

#[tokio::test]
async fn r13_the_record_of_an_unmatched_event_names_who_declined() {
    let house = House::new().await;
    let scope = house.scope("a").await;
    let uid = house.accept("a", &["1"]).await[0];
    let slots: Vec<(i32, String)> =
        sqlx::query_as("SELECT route_id, slot FROM weir.route WHERE scope_id = $1 ORDER BY slot")
            .bind(scope.0)
            .fetch_all(house.kit.pool())
            .await
            .expect("both were numbered");
    let declined = [
        (RouteId(slots[1].0), "no\nreally".to_owned()),
        (RouteId(slots[0].0), String::new()),
    ];
    let (packed, truncated) = pack(&declined);
    sqlx::query("INSERT INTO weir.route_refusal VALUES ($1, $2, $3, $4)")
        .bind(house.tenant.0)
        .bind(uid.0)
        .bind(packed)
        .bind(truncated)
        .execute(house.kit.pool())
        .await
        .expect("the table is there");
    house.decide(uid, Disposition::Unmatched, None).await;
    let found = read(&house.db, house.tenant, &EventRef::Uid(uid), true)
        .await
        .expect("it is there");
    let Standing::Routed(record) = found.standing else {
        panic!("it was decided")
    };
    assert_eq!(
        record.refusals,
        [
            ("two".to_owned(), "no".to_owned()),
            ("one".to_owned(), String::new())
        ]
    );
    assert_eq!(
        (
            record.disposition,
            record.generation,
            record.refusals_truncated
        ),
        (Disposition::Unmatched, 1, false)
    );
}

#[tokio::test]
async fn a04_payloads_read_back_byte_for_byte_until_retention_drops_them() {
    let house = House::new().await;
    let payloads = [
        Some(Payload {
            bytes: b"{\"a\":1,\"a\":9007199254740993,\"s\":\"\\ud800\"} \r\n".to_vec(),
            is_text: true,
        }),
        Some(Payload {
            bytes: "nul \0 in text".into(),
            is_text: true,
        }),
        Some(Payload {
            bytes: (0..=255).collect(),
            is_text: false,
        }),
        Some(Payload {
            bytes: Vec::new(),
            is_text: false,
        }),
        None,
    ];
    let mut uids = Vec::new();
    for (i, payload) in payloads.iter().enumerate() {
        let envelope = Envelope {
            payload: payload.clone(),
            ..Envelope::json(i.to_string(), "s", "t", String::new())
        };
        uids.extend(house.accept_envelopes("a", vec![envelope.clone()]).await);
        let by_id = EventRef::Identity("s".to_owned(), i.to_string());
        let found = read(&house.db, house.tenant, &by_id, true)
            .await
            .expect("it is there");
        assert_eq!((found.uid, found.envelope), (uids[i], envelope));
        let without = read(&house.db, house.tenant, &by_id, false)
            .await
            .expect("it is there");
        assert_eq!(without.envelope.payload, None);
    }
    sqlx::query("DELETE FROM weir.event_body")
        .execute(house.kit.pool())
        .await
        .expect("the table is there");
    let found = read(&house.db, house.tenant, &EventRef::Uid(uids[0]), true)
        .await
        .expect("the event stays");
    assert_eq!(
        (found.envelope.id.as_str(), found.envelope.payload.is_none()),
        ("0", true)
    );
    let Standing::Pending(pending) = found.standing else {
        panic!("nobody decided it")
    };
    assert_eq!(
        (pending.state, pending.next_try, pending.failures),
        (PendingState::Due, None, 0)
    );
    assert!(
        house
            .list(10)
            .run(&house.db)
            .await
            .expect("it is answered")
            .events
            .is_empty()
    );
}

#[tokio::test]
async fn o04_the_event_of_another_tenant_is_absent() {
    let house = House::new().await;
    let uid = house.accept("a", &["1"]).await[0];
    publish(&house.db, "other", DOCUMENT, Some(0), "")
        .await
        .expect("it is valid");
    let (other, _) = weir_ledger::tenant::resolve(&house.db, "other")
        .await
        .expect("it was just published");
    for name in [
        EventRef::Uid(uid),
        EventRef::Identity("s".into(), "1".into()),
        EventRef::Uid(EventUid(Uuid::nil())),
    ] {
        let refused = read(&house.db, other, &name, true)
            .await
            .expect_err("it is not theirs");
        assert_eq!(refused.reason(), "EVENT_NOT_FOUND");
    }
    let page = ListEvents {
        tenant: other,
        ..house.list(10)
    }
    .run(&house.db)
    .await
    .expect("it is answered");
    assert!(page.events.is_empty());
}
