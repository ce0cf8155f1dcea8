//! Histories that once showed a difference between service and model, by name. A failing run of the model prints its
//! history in the form that stands here, already shrunk.

use super::replay;

/// The model took every Work that is not held for one that has not ended.
#[tokio::test(flavor = "multi_thread")]
async fn l14_an_ended_work_is_not_let_go() {
    replay(
        r#"{"scopes":1,"deep":false,"config":{"scopes":[
            {"bindings":{"0":{"executor":"E","claims":{"inject":true,"interrupt":true},"max_attempts":2}},
             "routes":[{"slot":9,"disabled":false,"asks":{"When":"Always"},"binding":0,"policy":"Queue",
                        "fallback":null,"attach":null}],
             "source":null},
            {"bindings":{},"routes":[],"source":null},
            {"bindings":{},"routes":[],"source":null}]},
        "registered":{"inject":true,"interrupt":true},
        "actions":[
            {"Publish":{"scope":1,"event":{"kind":"A","n":null,"k":null,"keys":[],"target":null}}},
            {"Cancel":{"pick":188}},
            {"LetGo":{"pick":110}}]}"#,
    )
    .await;
}

/// The model had another name for the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn l01_a_binding_without_executor_is_not_claimed() {
    replay(
        r#"{"scopes":1,"deep":false,"config":{"scopes":[
            {"bindings":{"2":{"executor":null,"claims":{"inject":false,"interrupt":true},"max_attempts":2}},
             "routes":[],"source":null},
            {"bindings":{},"routes":[],"source":null},
            {"bindings":{},"routes":[],"source":null}]},
        "registered":null,
        "actions":[{"Claim":{"scope":1,"binding":2}}]}"#,
    )
    .await;
}

/// The second event is input of the Work because the first attaches its key; it was accepted before the third.
#[tokio::test(flavor = "multi_thread")]
async fn r06_input_by_a_key_attached_in_the_same_pass_keeps_its_place_in_the_queue() {
    replay(
        r#"{"scopes":1,"deep":true,"config":{"scopes":[
            {"bindings":{"0":{"executor":"F","claims":{"inject":true,"interrupt":true},"max_attempts":1}},
             "routes":[{"slot":9,"disabled":false,"asks":{"When":"Always"},"binding":0,"policy":"Queue",
                        "fallback":null,"attach":"OfData"}],
             "source":null},
            {"bindings":{},"routes":[],"source":null},
            {"bindings":{},"routes":[],"source":null}]},
        "registered":{"inject":true,"interrupt":false},
        "actions":[{"Batch":{"scope":0,"events":[
            {"kind":"Bad","n":null,"k":{"Text":2},"keys":[1],"target":null},
            {"kind":"Flaky","n":null,"k":{"Text":1},"keys":[2],"target":null},
            {"kind":"Flaky","n":null,"k":null,"keys":[1],"target":null}]}}]}"#,
    )
    .await;
}

/// Not a difference: what generated histories come to seldom (rule r10).
#[tokio::test(flavor = "multi_thread")]
async fn r10_input_that_a_running_attempt_cannot_take_is_deferred_and_what_follows_stands_behind_it()
 {
    replay(
        r#"{"scopes":1,"deep":false,"config":{"scopes":[
            {"bindings":{"0":{"executor":"E","claims":{"inject":true,"interrupt":true},"max_attempts":2},
                         "1":{"executor":"E","claims":{"inject":true,"interrupt":true},"max_attempts":2}},
             "routes":[{"slot":0,"disabled":false,"asks":{"When":{"IsType":"A"}},"binding":0,"policy":"Queue",
                        "fallback":null,"attach":null},
                       {"slot":1,"disabled":false,"asks":{"When":{"IsType":"B"}},"binding":1,"policy":"Inject",
                        "fallback":null,"attach":null}],
             "source":null},
            {"bindings":{},"routes":[],"source":null},
            {"bindings":{},"routes":[],"source":null}]},
        "registered":{"inject":true,"interrupt":true},
        "actions":[
            {"Publish":{"scope":0,"event":{"kind":"A","n":null,"k":null,"keys":[1],"target":null}}},
            {"Claim":{"scope":0,"binding":0}},
            {"Publish":{"scope":0,"event":{"kind":"B","n":null,"k":null,"keys":[1],"target":null}}},
            {"Publish":{"scope":0,"event":{"kind":"A","n":null,"k":null,"keys":[1],"target":null}}},
            {"Publish":{"scope":0,"event":{"kind":"A","n":null,"k":null,"keys":[2],"target":null}}},
            {"Complete":{"pick":0}},
            {"Claim":{"scope":0,"binding":1}},
            {"Complete":{"pick":0}}]}"#,
    )
    .await;
}
