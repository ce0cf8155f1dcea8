//! The routes that declined an unmatched event, stored compactly (rule r13).
//!
//! The form is a version byte and then one entry a route, in order: the route's number and the
//! ordinal of its reason, both as variable-length integers. Ordinal 0 is no reason. An ordinal that
//! was not given before is the next one, and its text follows with its length; so each distinct
//! reason is written once, and what is cut off at the end harms nothing before it.

use std::collections::HashMap;

use weir_kernel::RouteId;
use weir_kernel::limits::one_line;

/// Longest reason, in bytes.
pub const MAX_REASON: usize = 500;
/// Largest stored form, in bytes.
pub const MAX_PACKED: usize = 64 << 10;
/// Most bytes of reasons as they are read back, where one reason counts as often as it was given:
/// a few bytes stored must not become an answer that no client takes.
pub const MAX_UNPACKED: usize = 1 << 20;

const VERSION: u8 = 1;

/// What is counted for a route as it is read back, besides its reason: its slot and the framing.
const ENTRY_OVERHEAD: usize = 72;

/// A stored form that this version cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stored refusals of an event are unreadable")]
pub struct Unreadable;

/// Packs what each route said, in the order they were asked. Every declining route counts, with or
/// without a reason; a reason is cut to one line of at most [`MAX_REASON`] bytes at a character
/// boundary.
///
/// The answer is the stored form and whether routes at the end were left out, because it would have
/// passed [`MAX_PACKED`], or [`MAX_UNPACKED`] when read back.
#[must_use]
pub fn pack(declined: &[(RouteId, String)]) -> (Vec<u8>, bool) {
    let mut packed = vec![VERSION];
    let mut ordinals: HashMap<String, u64> = HashMap::from([(String::new(), 0)]);
    let mut unpacked = 0;
    for (route, reason) in declined {
        let reason = one_line(reason, MAX_REASON);
        unpacked += reason.len() + ENTRY_OVERHEAD;
        let mut entry = Vec::new();
        // Route numbers are positive; the cast keeps every bit either way.
        put(&mut entry, u64::from(route.0.cast_unsigned()));
        match ordinals.get(&reason) {
            Some(ordinal) => put(&mut entry, *ordinal),
            None => {
                let ordinal = ordinals.len() as u64;
                put(&mut entry, ordinal);
                put(&mut entry, reason.len() as u64);
                entry.extend_from_slice(reason.as_bytes());
                ordinals.insert(reason, ordinal);
            }
        }
        if packed.len() + entry.len() > MAX_PACKED || unpacked > MAX_UNPACKED {
            return (packed, true);
        }
        packed.append(&mut entry);
    }
    (packed, false)
}

/// Reads what [`pack`] wrote.
///
/// # Errors
/// The bytes are not what [`pack`] writes.
pub fn unpack(packed: &[u8]) -> Result<Vec<(RouteId, String)>, Unreadable> {
    let Some((&VERSION, mut rest)) = packed.split_first() else {
        return Err(Unreadable);
    };
    let mut reasons = vec![""];
    let mut declined = Vec::new();
    while !rest.is_empty() {
        let route = u32::try_from(take(&mut rest)?).map_err(|_| Unreadable)?;
        let ordinal = usize::try_from(take(&mut rest)?).map_err(|_| Unreadable)?;
        if ordinal == reasons.len() {
            let length = usize::try_from(take(&mut rest)?).map_err(|_| Unreadable)?;
            let (text, after) = rest.split_at_checked(length).ok_or(Unreadable)?;
            reasons.push(std::str::from_utf8(text).map_err(|_| Unreadable)?);
            rest = after;
        }
        let reason = reasons.get(ordinal).ok_or(Unreadable)?;
        declined.push((RouteId(route.cast_signed()), (*reason).to_owned()));
    }
    Ok(declined)
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(Unreadable)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Unreadable)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(reasons: &[&str]) -> Vec<(RouteId, String)> {
        (1..)
            .map(RouteId)
            .zip(reasons.iter().map(|r| (*r).to_owned()))
            .collect()
    }

    proptest! {
        #[test]
        fn r13_what_is_packed_reads_back_cut_to_one_line(
            declined in proptest::collection::vec((1_i32.., "(?s).{0,40}|[a-c]|ä{240,260}"), 0..60)
        ) {
            let declined: Vec<(RouteId, String)> =
                declined.into_iter().map(|(route, reason)| (RouteId(route), reason)).collect();
            let (packed, truncated) = pack(&declined);
            prop_assert!(!truncated && packed.len() <= MAX_PACKED);
            let expected: Vec<(RouteId, String)> =
                declined.into_iter().map(|(route, reason)| (route, one_line(&reason, MAX_REASON))).collect();
            for (_, reason) in &expected {
                prop_assert!(reason.len() <= MAX_REASON && !reason.contains('\n'));
            }
            prop_assert_eq!(unpack(&packed), Ok(expected));
        }

        #[test]
        fn r13_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
            let _ = unpack(&[&[VERSION], bytes.as_slice()].concat());
        }
    }

    #[test]
    fn r13_every_declining_route_counts_and_a_reason_is_stored_once() {
        let long = "x".repeat(600);
        let declined = of(&["", &long, "no", &long, "", &long]);
        let (packed, truncated) = pack(&declined);
        assert!(!truncated);
        assert!(packed.len() < 530, "{}", packed.len());
        let back = unpack(&packed).expect("it was packed here");
        assert_eq!(back.len(), 6);
        assert_eq!(
            (back[0].1.as_str(), back[1].1.len(), back[2].1.as_str()),
            ("", 500, "no")
        );
    }

    #[test]
    fn r13_past_64_kib_the_end_is_left_out_and_said_so() {
        let reasons: Vec<String> = (0..300)
            .map(|i| format!("{i:03}{}", "ö".repeat(300)))
            .collect();
        let declined: Vec<(RouteId, String)> = (1..).map(RouteId).zip(reasons).collect();
        let (packed, truncated) = pack(&declined);
        assert!(truncated && packed.len() <= MAX_PACKED);
        let back = unpack(&packed).expect("it was packed here");
        assert!((120..300).contains(&back.len()), "{}", back.len());
        for ((route, reason), (given_route, given)) in back.iter().zip(&declined) {
            assert_eq!(route, given_route);
            assert!(given.starts_with(reason.as_str()));
        }
    }

    #[test]
    fn r13_a_reason_given_very_often_does_not_become_a_huge_answer() {
        let declined: Vec<(RouteId, String)> = (1..20_000)
            .map(|i| (RouteId(i), "y".repeat(MAX_REASON)))
            .collect();
        let (packed, truncated) = pack(&declined);
        assert!(truncated);
        let back = unpack(&packed).expect("it was packed here");
        assert!(back.iter().map(|(_, reason)| reason.len()).sum::<usize>() <= MAX_UNPACKED);
    }
}
