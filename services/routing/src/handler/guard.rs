//! Catching a panic with its message and backtrace (rule r20).

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use weir_kernel::limits::cut;

thread_local! {
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
    static GUARDED: RefCell<bool> = const { RefCell::new(false) };
}

/// Longest panic text kept, in bytes.
const MAX_PANIC: usize = 8 << 10;

/// Runs a handler and turns its panic into the message and the backtrace. The text can quote what the
/// handler's author put into the panic; it goes into the event's record and nowhere else.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    install();
    GUARDED.with(|g| *g.borrow_mut() = true);
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.with(|g| *g.borrow_mut() = false);
    result.map_err(|_| {
        let text = CAPTURED
            .with(|c| c.borrow_mut().take())
            .unwrap_or_else(|| "panicked".to_owned());
        cut(&text.replace('\0', "\u{fffd}"), MAX_PANIC).to_owned()
    })
}

/// Puts a hook before the process's own, once. Panics outside a handler go to the one that was there.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if GUARDED.with(|g| *g.borrow()) {
                let text = format!("{info}\n{}", Backtrace::force_capture());
                CAPTURED.with(|c| *c.borrow_mut() = Some(text));
            } else {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r20_a_panic_is_caught_with_its_message_and_backtrace() {
        let text = guarded(|| -> () { panic!("ouch {}", 7) }).expect_err("it panics");
        assert!(text.contains("ouch 7"), "{text}");
        assert!(
            text.contains("guard"),
            "the backtrace names its frames: {text}"
        );
        assert_eq!(guarded(|| 3), Ok(3));
    }
}
