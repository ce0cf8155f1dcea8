//! Pages.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;
use weir_kernel::envelope::{Envelope, Payload};
use weir_kernel::{Classify as _, Disposition, TenantId, WorkId};

use super::House;
use crate::query::list::{Filter, ListEvents, Page};

fn ids(page: &Page) -> Vec<&str> {
    page.events.iter().map(|e| e.envelope.id.as_str()).collect()
}

#[tokio::test]
async fn r19_pages_of_all_scopes_are_complete_and_disjoint_while_others_publish() {
    let house = House::new().await;
    for i in 0..10 {
        house
            .accept("a", &[&format!("a{i}"), &format!("a{i}'")])
            .await;
        house.accept("b", &[&format!("b{i}")]).await;
    }
    let writing = async {
        for i in 10..40 {
            house.accept("b", &[&format!("b{i}")]).await;
            house.accept("a", &[&format!("a{i}")]).await;
        }
    };
    let reading = async {
        let (mut list, mut seen) = (house.list(7), Vec::new());
        loop {
            let page = list.run(&house.db).await.expect("the token is good");
            assert!(page.events.len() <= 7);
            seen.extend(page.events.into_iter().map(|e| (e.scope, e.seq)));
            if page.next_page_token.is_empty() {
                return (list, seen);
            }
            list.page_token = page.next_page_token;
        }
    };
    let ((), (mut list, mut seen)) = tokio::join!(writing, reading);
    // What came after the last page stands behind its token.
    while let Ok(page) = list.run(&house.db).await {
        let fresh = page.events.into_iter().map(|e| (e.scope, e.seq));
        seen.extend(
            fresh
                .filter(|place| !seen.contains(place))
                .collect::<Vec<_>>(),
        );
        if page.next_page_token.is_empty() {
            break;
        }
        list.page_token = page.next_page_token;
    }
    let mut by_scope: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (scope, seq) in &seen {
        by_scope.entry(scope.clone()).or_default().push(*seq);
    }
    assert_eq!(
        seen.iter().collect::<BTreeSet<_>>().len(),
        seen.len(),
        "each once"
    );
    assert_eq!(by_scope["a"], (1..=50).collect::<Vec<_>>());
    assert_eq!(by_scope["b"], (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn r19_filters_find_all_and_tokens_belong_to_them() {
    let house = House::new().await;
    let work = WorkId(Uuid::now_v7());
    for i in 0..30 {
        let uids = house.accept("a", &[&format!("{i}")]).await;
        match i % 3 {
            0 => house.decide(uids[0], Disposition::Drop, None).await,
            1 => house.decide(uids[0], Disposition::Queue, Some(work)).await,
            _ => {}
        }
    }
    for (filter, rest) in [
        (
            Filter {
                disposition: Some(Disposition::Drop),
                ..Filter::default()
            },
            0,
        ),
        (
            Filter {
                disposition: Some(Disposition::Queue),
                ..Filter::default()
            },
            1,
        ),
        (
            Filter {
                work: Some(work),
                kind: Some("t".to_owned()),
                ..Filter::default()
            },
            1,
        ),
        (
            Filter {
                unrouted: true,
                ..Filter::default()
            },
            2,
        ),
    ] {
        let mut list = ListEvents {
            filter,
            ..house.list(4)
        };
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let page = list.run(&house.db).await.expect("the token is good");
            seen.extend(
                ids(&page)
                    .into_iter()
                    .map(|id| id.parse::<i32>().expect("a number")),
            );
            pages += 1;
            if page.next_page_token.is_empty() {
                break;
            }
            list.page_token = page.next_page_token;
        }
        assert_eq!(
            seen,
            (0..30).filter(|i| i % 3 == rest).collect::<Vec<_>>(),
            "{:?}",
            list.filter
        );
        assert!(pages >= 3);
        for other in [
            ListEvents {
                filter: Filter::default(),
                ..list.clone()
            },
            ListEvents {
                tenant: TenantId(list.tenant.0 + 1),
                ..list.clone()
            },
            ListEvents {
                page_token: "x".to_owned(),
                ..list.clone()
            },
        ] {
            assert_eq!(
                other
                    .run(&house.db)
                    .await
                    .expect_err("not its token")
                    .reason(),
                "PAGE_TOKEN_INVALID"
            );
        }
    }
    let none = Filter {
        kind: Some("other".to_owned()),
        ..Filter::default()
    };
    let page = ListEvents {
        filter: none,
        ..house.list(4)
    }
    .run(&house.db)
    .await
    .expect("it is answered");
    assert!(page.events.is_empty() && page.next_page_token.is_empty());
}

#[tokio::test]
async fn r19_a_page_with_payloads_stays_below_what_clients_take() {
    let house = House::new().await;
    let big = |id: &str| Envelope {
        payload: Some(Payload {
            bytes: vec![7; 1 << 20],
            is_text: false,
        }),
        ..Envelope::json(id.to_owned(), "s", "t", String::new())
    };
    house
        .accept_envelopes("a", vec![big("1"), big("2"), big("3"), big("4")])
        .await;
    let mut list = ListEvents {
        with_data: true,
        ..house.list(100)
    };
    let first = list.run(&house.db).await.expect("it is answered");
    assert_eq!(ids(&first), ["1", "2"]);
    list.page_token = first.next_page_token;
    let second = list.run(&house.db).await.expect("it is answered");
    assert_eq!(ids(&second), ["3", "4"]);
    assert!(second.next_page_token.is_empty());
}
