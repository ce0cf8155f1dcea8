//! Addresses of remote handlers (rule r51).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest address, in bytes.
pub const MAX_ADDRESS: usize = 2_048;
/// The port of an address that names none.
const DEFAULT_PORT: u16 = 80;

/// Reads an address, `http://host[:port]`, and returns its endpoint in one spelling: the host in lower case, the port
/// written out. Nothing is resolved.
///
/// # Errors
/// What is wrong, in words that quote nothing of the address: it may have a password in it.
pub fn endpoint(address: &str) -> Result<String, String> {
    const FORM: &str = "is not of the form `http://host:port`";
    if address.len() > MAX_ADDRESS {
        let len = address.len();
        return Err(format!("is {len} bytes, the limit is {MAX_ADDRESS}"));
    }
    let (scheme, rest) = address.split_once("://").ok_or(FORM)?;
    if scheme.eq_ignore_ascii_case("https") {
        return Err(
            "`https` is not spoken in this version; use `http`, and a proxy beside the service for TLS"
                .to_owned(),
        );
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(FORM.to_owned());
    }
    if rest.contains(['?', '#']) {
        return Err("has a query or a fragment, which no handler is told".to_owned());
    }
    if rest.contains('@') {
        return Err("has user information, which no handler is told".to_owned());
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains('/') {
        return Err("has a path, which no handler is told".to_owned());
    }
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an address of version 6 stand in brackets.
        Some((host, port)) if !port.contains(']') => {
            (host, number(port).ok_or("has no valid port")?)
        }
        _ => (authority, DEFAULT_PORT),
    };
    if !is_host(host) {
        return Err("has no valid host".to_owned());
    }
    Ok(format!("http://{}:{port}", host.to_ascii_lowercase()))
}

fn number(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    port.parse().ok().filter(|n| digits && *n > 0)
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner
            .strip_suffix(']')
            .is_some_and(|six| six.parse::<Ipv6Addr>().is_ok());
    }
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if numeric {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(allowed);
    host.len() <= 253 && host.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r51_an_address_is_an_endpoint_in_one_spelling() {
        for (given, endpoint_of) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("HTTP://Score.Internal:9000/", "http://score.internal:9000"),
            ("http://score", "http://score:80"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("http://[::1]", "http://[::1]:80"),
            ("http://a_b-c.svc:1", "http://a_b-c.svc:1"),
        ] {
            assert_eq!(endpoint(given).as_deref(), Ok(endpoint_of), "{given}");
        }
    }

    #[test]
    fn r51_what_is_no_address_is_refused_without_quoting_it() {
        for given in [
            "",
            "127.0.0.1:9000",
            "unix:///tmp/s",
            "ftp://h:1",
            "https://h:1",
            "http://",
            "http://:9000",
            "http://h:",
            "http://h:0",
            "http://h:+1",
            "http://h:65536",
            "http://h:1/path",
            "http://h:1?q=hidden",
            "http://h:1#hidden",
            "http://u:hidden@h:1",
            "http://h h:1",
            "http://h\n:1",
            "http://ä:1",
            "http://1.2.3:1",
            "http://[::1:1",
            "http://[zz]:1",
            "http://a..b:1",
        ] {
            let problem = endpoint(given).expect_err(given);
            assert!(!problem.contains("hidden"), "{problem}");
        }
        let long = format!("http://{}", "a.".repeat(1_100));
        assert_eq!(
            endpoint(&long).expect_err("long"),
            format!("is {} bytes, the limit is 2048", long.len())
        );
    }
}
