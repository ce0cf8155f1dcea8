//! Pages of a list.

use weir_kernel::Violation;

/// Most items of one page.
const MOST: i32 = 1_000;
/// Items of a page whose size was not asked for.
const DEFAULT: i32 = 100;

/// One page: its size and where the last one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page<T> {
    /// Items, 1 to 1,000.
    pub(crate) size: i32,
    /// Position of the last page's last item.
    pub(crate) after: Option<T>,
}

impl<T: std::str::FromStr> Page<T> {
    /// Reads size and token of a request.
    ///
    /// # Errors
    /// The field at fault.
    pub(crate) fn read(size: i32, token: &str) -> Result<Self, Violation> {
        let size = match size {
            0 => DEFAULT,
            1..=MOST => size,
            _ => {
                return Err(Violation::new(
                    "page_size",
                    format!("is {size}, not 1 to {MOST}"),
                ));
            }
        };
        let after = match token {
            "" => None,
            token => Some(token.parse().map_err(|_| {
                Violation::new("page_token", "is not one that a page of this list answered")
            })?),
        };
        Ok(Self { size, after })
    }

    /// One item more than the page, to see whether there is a next one.
    pub(crate) fn limit(self) -> i64 {
        i64::from(self.size) + 1
    }
}

impl<T> Page<T> {
    /// Cuts what was read to the page and returns the next page's token.
    pub(crate) fn cut<R>(&self, rows: &mut Vec<R>, token: impl Fn(&R) -> String) -> String {
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        if rows.len() <= size {
            return String::new();
        }
        rows.truncate(size);
        rows.last().map(token).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded_and_their_tokens_checked() {
        let page = Page::<i64>::read(0, "").expect("the default");
        assert_eq!((page.size, page.after), (100, None));
        assert!(Page::<i64>::read(1_001, "").is_err());
        assert!(Page::<i64>::read(-1, "").is_err());
        assert_eq!(
            Page::<i64>::read(1, "x").expect_err("no number").field,
            "page_token"
        );
        let page = Page::<i64>::read(2, "7").expect("good");
        let mut rows = vec![8, 9, 10];
        assert_eq!(page.cut(&mut rows, ToString::to_string), "9");
        assert_eq!(rows, [8, 9]);
        assert_eq!(page.cut(&mut rows, ToString::to_string), "");
    }
}
