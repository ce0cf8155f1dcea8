//! Reads, and what comes later.

use tonic::Code;
use uuid::Uuid;
use weir_proto::causal::v1 as pb;

use crate::world::{World, expected, refusal};

fn page(root: &str, page_size: i32, page_token: &str) -> pb::ListDiagnosticsRequest {
    pb::ListDiagnosticsRequest {
        root: root.to_owned(),
        page_size,
        page_token: page_token.to_owned(),
    }
}

#[tokio::test]
async fn o04_a_root_is_found_by_any_event_of_its_tree_and_by_its_tenant_only() {
    let world = World::new().await;
    let root = world.root().await;
    let child = world.derive(root, "a").await.expect("allowed");
    let view = world.get_root(&child.uid).await;
    assert_eq!(view, world.get_root(root).await);
    assert_eq!(
        (view.root, view.spent, view.braked),
        (root.to_string(), 1, false)
    );
    let ask = pb::GetRootRequest {
        event: root.to_string(),
    };
    let refused = refusal(world.foreign().get_root(ask).await);
    assert_eq!(refused, expected(Code::NotFound, "EVENT_NOT_FOUND", ""));
    let ask = pb::GetRootRequest {
        event: Uuid::now_v7().to_string(),
    };
    let refused = refusal(world.causal().get_root(ask).await);
    assert_eq!(refused, expected(Code::NotFound, "EVENT_NOT_FOUND", ""));
    let refused = refusal(world.causal().get_root(pb::GetRootRequest::default()).await);
    assert_eq!(
        refused,
        expected(Code::InvalidArgument, "INVALID_REQUEST", "event")
    );
}

#[tokio::test]
async fn c05_diagnostics_are_paged_newest_minute_first() {
    let world = World::new().await;
    let parents: Vec<String> = (0..3).map(|_| Uuid::now_v7().to_string()).collect();
    for minute in 0..2 {
        for parent in &parents {
            let refused = refusal(world.derive(parent, &format!("{minute}/{parent}")).await);
            assert_eq!(refused.1, "PARENT_MISSING");
        }
        world.next_minute().await;
    }
    let list = async |request| world.causal().list_diagnostics(request).await;
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let answer = list(page("", 2, &token))
            .await
            .expect("a page")
            .into_inner();
        seen.extend(answer.diagnostics.into_iter().map(|d| {
            assert_eq!((d.code.as_str(), d.refused), ("missing_parent", 1));
            (d.minute.expect("set").seconds, d.root)
        }));
        if answer.next_page_token.is_empty() {
            break;
        }
        token = answer.next_page_token;
    }
    assert_eq!(seen.len(), 6, "each once: {seen:?}");
    let mut sorted = seen.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    sorted.dedup();
    assert_eq!(seen, sorted, "newest first");

    let first = list(page(&parents[0], 1, ""))
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(
        (first.diagnostics.len(), &first.diagnostics[0].root),
        (1, &parents[0])
    );
    let last = list(page(&parents[0], 1, &first.next_page_token))
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(
        (last.diagnostics.len(), last.next_page_token.as_str()),
        (1, "")
    );
    assert!(
        last.diagnostics[0].minute.expect("set").seconds
            < first.diagnostics[0].minute.expect("set").seconds
    );

    // A token belongs to its list.
    for wrong in [page(&parents[0], 2, &token), page("", 2, "x")] {
        assert_eq!(
            refusal(list(wrong).await),
            expected(Code::InvalidArgument, "INVALID_REQUEST", "page_token")
        );
    }
    for size in [-1, 1_001] {
        let refused = refusal(list(page("", size, "")).await);
        assert_eq!(
            refused,
            expected(Code::InvalidArgument, "INVALID_REQUEST", "page_size")
        );
    }
    let foreign = world
        .foreign()
        .list_diagnostics(page("", 0, ""))
        .await
        .expect("a page");
    assert_eq!(foreign.into_inner().diagnostics, []);
}

#[tokio::test]
async fn what_comes_later_says_so() {
    let world = World::new().await;
    let mut causal = world.causal();
    let later = expected(Code::Unimplemented, "NOT_IMPLEMENTED", "");
    assert_eq!(
        refusal(causal.get_lineage(pb::GetLineageRequest::default()).await),
        later
    );
    assert_eq!(
        refusal(causal.brake_root(pb::BrakeRootRequest::default()).await),
        later
    );
    assert_eq!(
        refusal(causal.release_root(pb::ReleaseRootRequest::default()).await),
        later
    );
    assert_eq!(
        refusal(causal.cancel_tree(pb::CancelTreeRequest::default()).await),
        later
    );
}
