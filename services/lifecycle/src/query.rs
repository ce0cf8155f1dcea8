//! Reads: what stands, and the one thing that would move it.

mod attempt;
mod input;
mod list;
mod page;
mod work;

pub(crate) use attempt::{AttemptView, list_attempts};
pub(crate) use input::{InputView, list_inputs};
pub(crate) use list::{WorkFilter, list_works};
pub(crate) use page::Page;
pub(crate) use work::{Blocker, WorkView, find_by_key, read_work, read_works};
