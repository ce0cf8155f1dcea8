//! Generations that decisions cite (rules r02, r12).

use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Disposition, Generation};

use super::arrange::publish;
use crate::support::Weir;

/// One route, whose name and binding tell the generation; the last one has another scope's routes only.
fn document(n: i64) -> String {
    format!(
        "scopes:\n  - name: s\n    bindings: {{ b{n}: {{}} }}\n    routes:\n      \
         - {{ slot: of-{n}, when: 'event.type == \"start\"', binding: b{n} }}\n"
    )
}

async fn config(weir: &Weir, generation: i64) -> routing::GetConfigResponse {
    let request = routing::GetConfigRequest { generation };
    let answer = weir.user.config().get_config(request).await;
    answer.expect("it is kept").into_inner()
}

async fn generations(weir: &Weir, page_size: i32) -> Vec<Generation> {
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = routing::ListGenerationsRequest {
            page_size,
            page_token,
        };
        let answer = weir.user.config().list_generations(request).await;
        let answer = answer.expect("a page").into_inner();
        all.extend(answer.generations);
        page_token = answer.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_a_generation_that_a_decision_cites_can_be_read_after_later_ones() {
    let weir = Weir::with(&document(1)).await;
    let second = weir.another().await;
    let mut records = Vec::new();
    for n in 1..=4 {
        if n > 1 {
            assert_eq!(weir.apply(&document(n), n - 1).await, n);
        }
        let uid = publish(&weir, &n.to_string(), "start", "{}", &[&n.to_string()]).await;
        records.push((n, weir.record(&uid).await));
    }
    let declined = publish(&weir, "declined", "x", "{}", &[]).await;
    let refusals = weir.record(&declined).await.refusals;
    assert_eq!(weir.apply("scopes: [{ name: s }]", 4).await, 5);
    for (n, record) in records {
        let found = (record.disposition(), record.generation);
        assert_eq!(found, (Disposition::Start, n));
        // The record says what was applied, by the names of then.
        let now = weir.record(&record.event).await;
        assert_eq!(now, record);
        let names = (format!("of-{n}"), format!("b{n}"));
        assert_eq!((now.route, now.binding), names);
        let cited = config(&weir, n).await;
        assert_eq!(cited.document, document(n));
        assert_eq!(cited.generation.expect("always there").generation, n);
    }
    assert_eq!(refusals[0].route, "of-4");
    assert_eq!(weir.record(&declined).await.refusals, refusals);

    let all = generations(&weir, 2).await;
    let numbers: Vec<i64> = all.iter().map(|g| g.generation).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    assert!(
        all.iter()
            .all(|g| g.actor == "tester" && g.digest.len() == 64)
    );
    assert_eq!(config(&weir, 0).await.generation, all.first().cloned());
    second.stop().await;
    weir.stop().await;
}
