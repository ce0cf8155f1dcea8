//! How far a replay is: a bar for a person, a few lines for a log.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressStyle};

use super::super::output;

/// Lines that a log gets of a whole replay.
const LOG_LINES: u64 = 10;

pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { done: Cell<u64>, total: u64 },
}

impl Progress {
    pub(super) fn start(total: u64) -> Self {
        if !output::is_watched() {
            return Self::Lines {
                done: Cell::new(0),
                total,
            };
        }
        let bar = ProgressBar::new(total);
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}")
            .expect("the template is a constant and was tried");
        bar.set_style(style);
        Self::Bar(bar)
    }

    pub(super) fn step(&self) {
        match self {
            Self::Bar(bar) => bar.inc(1),
            Self::Lines { done, total } => {
                done.set(done.get() + 1);
                if is_told(done.get(), *total) {
                    output::complain(&format!("{}/{total}", done.get()));
                }
            }
        }
    }

    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn is_told(done: u64, total: u64) -> bool {
    let step = total.div_ceil(LOG_LINES).max(1);
    done == total || done.is_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_about_ten_lines_and_the_last() {
        let told = |total| (1..=total).filter(|done| is_told(*done, total)).count();
        assert_eq!(told(264), 10);
        assert_eq!(told(3), 3);
        assert!(is_told(264, 264));
    }

    #[test]
    fn the_bars_template_is_one() {
        assert!(ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}").is_ok());
    }
}
