use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(
            http::HeaderName::from_bytes(name.as_bytes()).expect("a header name"),
            http::HeaderValue::from_bytes(value.as_bytes()).expect("a header value"),
        );
    }
    map
}

const BASE: [(&str, &str); 4] = [
    ("ce-id", "1"),
    ("ce-source", "demo"),
    ("ce-type", "a.b"),
    ("ce-specversion", "1.0"),
];

fn string<'a>(event: &'a CloudEvent, name: &str) -> Option<&'a str> {
    match event.attributes.get(name)?.attr.as_ref()? {
        Attr::CeString(value) | Attr::CeUri(value) => Some(value),
        _ => None,
    }
}

fn violations(error: Error) -> Vec<(String, String)> {
    match error {
        Error::Invalid(found) => found
            .into_iter()
            .map(|v| (v.field, v.description))
            .collect(),
        other => panic!("not a violation: {other}"),
    }
}

#[test]
fn a04_binary_mode_keeps_the_body_byte_for_byte() {
    let body = [0_u8, 255, 10, 13, 0, 128];
    let event = read(Mode::Binary, &headers(&BASE), &body).expect("reads");
    assert_eq!(event.data, Some(Data::BinaryData(body.to_vec())));
    let json = b"{ \"a\" : 1.0, \"a\":2, \"s\":\"\\ud800\\u0000\", \"n\": 12345678901234567890 }\n";
    let event = read(Mode::Binary, &headers(&BASE), json).expect("reads");
    let Some(Data::TextData(text)) = event.data else {
        panic!("UTF-8 is text")
    };
    assert_eq!(text.as_bytes(), json);
}

#[test]
fn binary_mode_decodes_headers_once() {
    let mut pairs = BASE.to_vec();
    pairs.extend([
        ("ce-subject", "%E2%82%AC%20%2525"),
        ("ce-comment", "\"a \\\"b\\\" %41\""),
        ("ce-share", "100%"),
        ("ce-time", "2026-11-30T10:00:00.5+01:00"),
        ("content-type", "application/json; charset=utf-8"),
        ("x-other", "ignored"),
    ]);
    let event = read(Mode::Binary, &headers(&pairs), b"{}").expect("reads");
    assert_eq!(string(&event, "subject"), Some("€ %25"));
    assert_eq!(string(&event, "comment"), Some("a \"b\" A"));
    assert_eq!(string(&event, "share"), Some("100%"));
    assert_eq!(
        string(&event, "datacontenttype"),
        Some("application/json; charset=utf-8")
    );
    let Some(Attr::CeTimestamp(time)) = &event.attributes["time"].attr else {
        panic!("a time")
    };
    assert_eq!((time.seconds, time.nanos), (1_796_029_200, 500_000_000));
    assert_eq!(event.attributes.len(), 5);
}

#[test]
fn binary_mode_names_every_fault_by_its_header() {
    let found = violations(
        read(
            Mode::Binary,
            &headers(&[
                ("ce-source", "%FF"),
                ("ce-time", "now"),
                ("ce-type", "a"),
                ("ce-type", "b"),
                ("ce-a_b", "x"),
            ]),
            b"",
        )
        .expect_err("refused"),
    );
    let mut fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "ce-a_b",
            "ce-id",
            "ce-source",
            "ce-specversion",
            "ce-time",
            "ce-type"
        ]
    );
}

#[test]
fn a04_structured_mode_keeps_data_as_it_stands() {
    let data = r#"{ "b":1.0 ,"a":"\ud800\u0000", "a": 18446744073709551616,
        "x":[1e400,-0] }"#;
    let body = format!(
        r#"{{"specversion":"1.0","data" :  {data}  ,"type":"a.b","id":"1","source":"demo","flag":true,"n":-7,"none":null}}"#
    );
    let event = read(Mode::Structured, &HeaderMap::new(), body.as_bytes()).expect("reads");
    assert_eq!(event.data, Some(Data::TextData(data.to_owned())));
    assert_eq!(string(&event, "datacontenttype"), Some("application/json"));
    assert_eq!(event.attributes["flag"].attr, Some(Attr::CeBoolean(true)));
    assert_eq!(event.attributes["n"].attr, Some(Attr::CeInteger(-7)));
    assert!(!event.attributes.contains_key("none"));
}

#[test]
fn structured_mode_reads_text_and_base64() {
    let body = r#"{"specversion":"1.0","type":"a","id":"1","source":"s","datacontenttype":"text/plain","data":"a\nb"}"#;
    let event = read(Mode::Structured, &HeaderMap::new(), body.as_bytes()).expect("reads");
    assert_eq!(event.data, Some(Data::TextData("a\nb".to_owned())));
    let body = r#"{"specversion":"1.0","type":"a","id":"1","source":"s","data_base64":"AP8K"}"#;
    let event = read(Mode::Structured, &HeaderMap::new(), body.as_bytes()).expect("reads");
    assert_eq!(event.data, Some(Data::BinaryData(vec![0, 255, 10])));
}

#[test]
fn structured_mode_names_every_fault_by_its_field() {
    let body = r#"{"type":1,"id":"1","source":"s","big":2147483648,"data":1,"data_base64":"AA=="}"#;
    let found = violations(
        read(Mode::Structured, &HeaderMap::new(), body.as_bytes()).expect_err("refused"),
    );
    let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["type", "big", "data_base64", "specversion"]);
    let twice = r#"{"id":"1","id":"2"}"#;
    let found = violations(
        read(Mode::Structured, &HeaderMap::new(), twice.as_bytes()).expect_err("refused"),
    );
    assert!(found[0].1.contains("`id` is given twice"), "{found:?}");
}

#[test]
fn batched_mode_names_the_event() {
    let good = r#"{"specversion":"1.0","type":"a","id":"1","source":"s","data":[ 1]}"#;
    let events = read_batch(format!("[{good},\n{good}]").as_bytes()).expect("reads");
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].data, Some(Data::TextData("[ 1]".to_owned())));
    let found = violations(read_batch(format!("[{good},{{}},7]").as_bytes()).expect_err("refused"));
    assert!(
        found.iter().any(|(field, _)| field == "[1].id"),
        "{found:?}"
    );
    assert!(found.iter().any(|(field, _)| field == "[2]"), "{found:?}");
}

#[test]
fn the_media_type_says_the_mode() {
    let of = |media| Mode::of(&headers(&[("content-type", media)]));
    assert_eq!(of("application/json"), Ok(Mode::Binary));
    assert_eq!(
        of("application/cloudevents+json; charset=UTF-8"),
        Ok(Mode::Structured)
    );
    assert_eq!(of("Application/CloudEvents-Batch+JSON"), Ok(Mode::Batched));
    assert!(of("application/cloudevents+avro").is_err());
    assert!(of("application/cloudevents+json; charset=latin1").is_err());
    assert_eq!(Mode::of(&HeaderMap::new()), Ok(Mode::Binary));
}
