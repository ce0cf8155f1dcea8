//! No acceptable input makes a handler or the service panic (rules a04, r20, r50).

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, StreamExt as _};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::types::v1::{Disposition, Event, PendingState, RouteRecord};
use weir_routing::handler::{Failure, Handler, Input, Verdict};

use super::arrange::read;
use crate::outside::get;
use crate::support::{Weir, event};

/// Reads what it is given and gives it all back: in reasons, errors, keys and panics.
#[derive(Debug)]
pub(crate) struct Echo;

impl Handler for Echo {
    fn decide(&self, input: &Input) -> Result<Verdict, Failure> {
        let bytes = input.event.payload.as_ref().map(|p| p.bytes.as_slice());
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        match input.event.kind.as_str() {
            "panics" => panic!("{text}"),
            "fails" => Err(Failure::Invalid(text)),
            "parses" => match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(value) => Ok(Verdict::Match {
                    reason: value.to_string(),
                    attach: Vec::new(),
                }),
                Err(error) => Err(Failure::Invalid(format!("{error}: {text}"))),
            },
            "keys" => Ok(Verdict::Match {
                reason: String::new(),
                attach: vec![text],
            }),
            _ => Ok(Verdict::Skip { reason: text }),
        }
    }
}

/// Expressions that look into data in every way, by the type of the event that they are for.
const EXPRESSIONS: [(&str, &str); 14] = [
    ("field", "event.data.a.b == 1"),
    ("index", "event.data[0][0] == event.data[1]"),
    ("size", "size(event.data) > 3"),
    ("sum", "event.data.n + 1 > 0"),
    ("negated", "-event.data.n < event.data.n * 2"),
    ("divided", "event.data.n / event.data.a % 7 == 1"),
    ("text", "string(event.data.n) == event.data.s"),
    ("number", "int(event.data.s) > uint(event.data.n)"),
    ("contains", "event.data.s.contains(event.data.a)"),
    ("matches", "event.data.s.matches('^(a|b)*[^c]+$')"),
    (
        "whole",
        "event.data == event.data && event.data != {'a': 1}",
    ),
    ("has", "has(event.data.a) && !has(event.data.a.b)"),
    (
        "all",
        "event.data.list.all(x, x == event.data.n) || event.data.exists(k, k == 'a')",
    ),
    ("in", "event.data.s in event.data.list || 'a' in event.data"),
];
const OTHERS: [&str; 6] = ["attach", "panics", "fails", "parses", "keys", "declined"];

fn config() -> String {
    let mut out = String::from(
        "scopes:\n  - name: s\n    bindings: { b: { executor: e } }\n    routes:\n      \
         - { slot: attach, when: 'event.type == \"attach\"', binding: b, attach: ['event.data.key', 'event.data.s'] }\n",
    );
    for (kind, expression) in EXPRESSIONS {
        let expression = expression.replace('\'', "''");
        out.push_str(&format!(
            "      - {{ slot: {kind}, when: 'event.type == \"{kind}\" && ({expression})', binding: b }}\n"
        ));
    }
    out + "      - { slot: echo, handler: { rust: echo }, binding: b }\n"
}

/// JSON text of any shape, with what parsers stumble over, and the fields that the expressions ask for.
fn json() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        any::<String>().prop_map(|s| serde_json::to_string(&s).expect("text")),
        prop_oneof![
            Just(r#""\ud800""#),
            Just(r#""\udc00\ud800""#),
            Just(r#""a\u0000b""#),
            Just(r#""\uFFFF\u202e""#),
            Just("\"\u{0}\""),
            Just(r#""\x""#),
            Just(r#""12""#),
        ]
        .prop_map(str::to_owned),
    ]
    .boxed();
    let number = "-?[0-9]{1,40}(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?";
    let leaf = prop_oneof![
        prop_oneof![
            Just("null"),
            Just("true"),
            Just("-0"),
            Just("NaN"),
            Just("")
        ]
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|n| n.to_string()),
        number,
        text.clone(),
    ];
    let name = prop_oneof![
        prop_oneof![
            Just("a"),
            Just("b"),
            Just("n"),
            Just("s"),
            Just("key"),
            Just("list")
        ]
        .prop_map(|n| format!("\"{n}\"")),
        text,
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let pair = (name.clone(), inner.clone()).prop_map(|(k, v)| format!("{k}:{v}"));
        prop_oneof![
            vec(inner, 0..6).prop_map(|all| format!("[{}]", all.join(","))),
            vec(pair, 0..6).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

fn size(data: &Data) -> usize {
    match data {
        Data::TextData(text) => text.len(),
        Data::BinaryData(bytes) => bytes.len(),
        Data::ProtoData(_) => 0,
    }
}

/// Payloads with a name each.
fn awkward() -> Vec<(String, Option<Data>)> {
    let mut out: Vec<(String, Option<Data>)> = Vec::new();
    let deep =
        |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    let mebibyte = 1 << 20;
    for (name, text) in [
        ("nothing", String::new()),
        ("blank", " \n".to_owned()),
        ("deep list", deep("[", "]", 10_000)),
        ("deep object", deep("{\"a\":", "}", 10_000)),
        ("deep and open", "[".repeat(10_000)),
        (
            "deep where it is looked at",
            format!("{{\"a\":{{\"b\":{}}}}}", deep("[", "]", 10_000)),
        ),
        ("just deep enough", deep("[", "]", 63)),
        (
            "integers",
            r#"{"n":9223372036854775807,"a":-9223372036854775808,"s":"9223372036854775808"}"#
                .to_owned(),
        ),
        (
            "unsigned",
            r#"{"n":18446744073709551615,"a":18446744073709551616,"s":"-1"}"#.to_owned(),
        ),
        (
            "huge numbers",
            format!(
                r#"{{"n":{0},"a":1e400,"s":"{0}","list":[-1e-400,{0}.5]}}"#,
                "9".repeat(5_000)
            ),
        ),
        ("zero", r#"{"n":0,"a":0,"s":"0"}"#.to_owned()),
        (
            "least",
            r#"{"n":-9223372036854775808,"a":-1,"s":"-9223372036854775808"}"#.to_owned(),
        ),
        (
            "NUL",
            "{\"s\":\"a\\u0000b\",\"a\":\"\\u0000\",\"key\":\"\\u0000\"}".to_owned(),
        ),
        ("raw NUL", "{\"s\":\"a\0b\",\"key\":\"\0\"}\0".to_owned()),
        (
            "lone surrogates",
            r#"{"s":"\ud800","a":"\udfff","key":"\udbff","\ud800":1}"#.to_owned(),
        ),
        (
            "repeated",
            r#"{"a":1,"a":{"b":1},"n":1,"n":2,"s":"x","s":"y","key":"1","key":"2"}"#.to_owned(),
        ),
        ("not JSON", "<event/>".to_owned()),
        ("half", r#"{"a":{"b":"#.to_owned()),
        ("two", "{} {}".to_owned()),
        ("a mark", "\u{feff}{}".to_owned()),
        ("a long name", format!("{{\"{}\":1}}", "k".repeat(70_000))),
        (
            "a long key",
            format!("{{\"key\":\"{0}\",\"s\":\"{0}\"}}", "k".repeat(600)),
        ),
        ("an empty key", r#"{"key":"","s":" "}"#.to_owned()),
        ("a list for a key", r#"{"key":["x"],"s":{}}"#.to_owned()),
        (
            "catastrophic",
            format!(
                "{{\"s\":\"{}c\",\"a\":\"{}d\"}}",
                "ab".repeat(20_000),
                "ab".repeat(10_000)
            ),
        ),
        (
            "long text",
            format!("{{\"s\":\"{}\",\"a\":\"y\"}}", "x".repeat(mebibyte - 30)),
        ),
        (
            "long list",
            format!("{{\"list\":[{}1],\"n\":0}}", "0,".repeat(mebibyte / 2 - 20)),
        ),
        ("long line ends", "\r\n\u{2028}".repeat(mebibyte / 5)),
    ] {
        out.push((name.to_owned(), Some(Data::TextData(text))));
    }
    for (name, bytes) in [
        ("no bytes", Vec::new()),
        ("a zero byte", vec![0]),
        ("no UTF-8", vec![0xff, 0xfe, 0x00, 0xd8]),
        ("surrogates in UTF-8", b"{\"s\":\"\xed\xa0\x80\"}".to_vec()),
        ("JSON in bytes", br#"{"a":{"b":1},"n":1,"s":"1"}"#.to_vec()),
        ("a mebibyte", (0..=255).cycle().take(mebibyte).collect()),
    ] {
        out.push((name.to_owned(), Some(Data::BinaryData(bytes))));
    }
    out.push(("none".to_owned(), None));
    out
}

/// What became of an event: a record, or nothing while two Works want one key.
enum End {
    Decided(Box<RouteRecord>),
    Conflict,
}

async fn end(weir: &Weir, uid: &str) -> (End, Event) {
    weir.db
        .wait_until("it is decided or in conflict", async |_| {
            let event = read(weir, uid).await;
            let conflict = event
                .pending
                .is_some_and(|p| p.state() == PendingState::Conflict);
            event.route.is_some() || conflict
        })
        .await;
    let event = read(weir, uid).await;
    let end = match &event.route {
        Some(record) => End::Decided(Box::new(record.clone())),
        None => End::Conflict,
    };
    (end, event)
}

/// Publishes, waits for the end, and checks what holds for all.
async fn survives(weir: &Weir, name: &str, kind: &str, data: Option<Data>) {
    let sent = CloudEvent {
        data: data.clone(),
        ..event(&format!("{kind}: {name}"), kind, "")
    };
    let answer = weir.try_publish("s", sent, &[]).await;
    let uid = answer.unwrap_or_else(|e| panic!("{kind}: {name}: {e}")).uid;
    let (end, kept) = end(weir, &uid).await;
    assert!(
        kept.event.expect("it is kept").data == data,
        "not as it was given: {kind}: {name}"
    );
    let record = match end {
        End::Decided(record) => record,
        End::Conflict if ["attach", "keys"].contains(&kind) => return,
        End::Conflict => panic!("it shares nothing: {kind}: {name}"),
    };
    let expected: &[Disposition] = match kind {
        "panics" | "fails" => &[Disposition::Failed],
        "declined" => &[Disposition::Unmatched],
        "parses" | "keys" => &[Disposition::Start, Disposition::Failed],
        _ => &[
            Disposition::Start,
            Disposition::Failed,
            Disposition::Unmatched,
        ],
    };
    let found = record.disposition();
    assert!(expected.contains(&found), "{kind}: {name}: {record:?}");
    if found == Disposition::Failed {
        let code = if kind == "panics" {
            "handler_panic"
        } else {
            "handler_invalid"
        };
        assert_eq!(record.reason, code, "{kind}: {name}: {}", record.error);
        assert_eq!(record.attempts, 1, "{kind}: {name}");
    }
    for refusal in &record.refusals {
        assert!(
            refusal.reason.len() <= 500 && !refusal.reason.contains('\n'),
            "{kind}: {name}: {}",
            refusal.reason
        );
    }
}

/// Counts panics of anything but test code, of the whole process.
fn panics() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = info
                .location()
                .is_some_and(|l| l.file().contains("tests/it/"));
            if !ours {
                COUNT.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
    COUNT.load(Ordering::SeqCst)
}

async fn all_survive(weir: &Weir, events: Vec<(String, &str, Option<Data>)>) {
    let before = panics();
    stream::iter(events)
        .map(|(name, kind, data)| async move { survives(weir, &name, kind, data).await })
        .buffer_unordered(8)
        .collect::<()>()
        .await;
    assert_eq!(get(&weir.health, "/health/ready").await.status, 200);
    assert_eq!(get(&weir.health, "/health/live").await.status, 200);
    let well = weir.routed("well", "has", &["w"]).await;
    assert_eq!(well.disposition(), Disposition::Unmatched);
    assert_eq!(panics(), before);
}

fn kinds() -> Vec<&'static str> {
    EXPRESSIONS.iter().map(|e| e.0).chain(OTHERS).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r50_whatever_is_accepted_is_decided_and_kept_as_it_was() {
    let weir = Weir::with(&config()).await;
    panics();
    let kinds = kinds();
    // What is large goes where it is looked at as a whole, and to the handler: the others do not read more of it.
    let of_large = ["size", "contains", "matches", "whole", "declined", "fails"];
    let all = awkward().into_iter().flat_map(|(name, data)| {
        let large = data.as_ref().is_some_and(|d| size(d) > 100_000);
        let of = |kind: &&'static str| (name.clone(), *kind, data.clone());
        let asked = kinds.iter().filter(|k| !large || of_large.contains(k));
        asked.map(of).collect::<Vec<_>>()
    });
    all_survive(&weir, all.collect()).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r50_arbitrary_json_is_decided_and_kept_as_it_was() {
    let weir = Weir::with(&config()).await;
    panics();
    let mut runner = TestRunner::deterministic();
    let strategy = json();
    let mut draw = move |i: usize| {
        let text = strategy
            .new_tree(&mut runner)
            .expect("it has values")
            .current();
        let data = match i % 3 {
            0 => Data::BinaryData(text.into_bytes()),
            _ => Data::TextData(text),
        };
        Some(data)
    };
    let all = kinds().into_iter().cycle().enumerate().take(300);
    let all = all
        .map(|(i, kind)| (i.to_string(), kind, draw(i)))
        .collect();
    all_survive(&weir, all).await;
    weir.stop().await;
}
