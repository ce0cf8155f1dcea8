//! The size limit on request messages that pass through unread.
//!
//! A gRPC body is a row of messages, each behind five bytes: a flag and a length. The lengths are
//! watched as the bytes pass, so that a message beyond the limit is refused on its announcement, with
//! nothing buffered and nothing decoded.

use crate::Error;
use bytes::Bytes;
use http_body::{Body, Frame};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Largest request message, in bytes: what services read. Twice the largest batch, so that the batch
/// limit of rule a05, which says more, is the one that a caller meets.
pub const MAX_MESSAGE: u64 = weir_rpc::MAX_DECODED as u64;

/// Bytes before each message.
const PREFIX: usize = 5;

/// Whether a request held a message that was too large: its announced size.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oversize(Arc<AtomicU64>);

impl Oversize {
    /// Returns the refusal, if a message was too large.
    pub(crate) fn refusal(&self) -> Option<Error> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            size => Some(Error::MessageTooLarge {
                size,
                limit: MAX_MESSAGE,
            }),
        }
    }
}

/// A request body that breaks off at a message beyond the limit.
pub(crate) struct Messages<B> {
    body: B,
    oversize: Oversize,
    prefix: [u8; PREFIX],
    filled: usize,
    remaining: u64,
}

/// The request was cut. Never seen by a caller: the gateway answers the refusal instead.
#[derive(Debug, thiserror::Error)]
#[error("a request message is too large")]
pub(crate) struct Cut;

impl<B> Messages<B> {
    pub(crate) fn new(body: B, oversize: Oversize) -> Self {
        Self {
            body,
            oversize,
            prefix: [0; PREFIX],
            filled: 0,
            remaining: 0,
        }
    }

    /// Follows the messages through some bytes.
    fn watch(&mut self, mut bytes: &[u8]) -> Result<(), Cut> {
        while !bytes.is_empty() {
            if self.remaining > 0 {
                let skip = bytes
                    .len()
                    .min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
                bytes = &bytes[skip..];
                self.remaining -= skip as u64;
                continue;
            }
            let take = bytes.len().min(PREFIX - self.filled);
            self.prefix[self.filled..self.filled + take].copy_from_slice(&bytes[..take]);
            self.filled += take;
            bytes = &bytes[take..];
            if self.filled == PREFIX {
                let [_, a, b, c, d] = self.prefix;
                let size = u64::from(u32::from_be_bytes([a, b, c, d]));
                if size > MAX_MESSAGE {
                    self.oversize.0.store(size, Ordering::Release);
                    return Err(Cut);
                }
                self.remaining = size;
                self.filled = 0;
            }
        }
        Ok(())
    }
}

impl<B> Body for Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<tower::BoxError>,
{
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tower::BoxError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        if let Some(bytes) = frame.data_ref()
            && let Err(cut) = self.watch(bytes)
        {
            return Poll::Ready(Some(Err(cut.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: u32, sent: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(size.to_be_bytes());
        bytes.extend(std::iter::repeat_n(7, sent));
        bytes
    }

    #[test]
    fn a_message_is_followed_through_any_cut_of_its_bytes() {
        let mut stream = message(3, 3);
        stream.extend(message(0, 0));
        stream.extend(message(300, 300));
        stream.extend(message(9 << 20, 0));
        for step in 1..stream.len() {
            let oversize = Oversize::default();
            let mut messages = Messages::new((), oversize.clone());
            let outcome = stream
                .chunks(step)
                .try_for_each(|chunk| messages.watch(chunk));
            assert!(outcome.is_err(), "in steps of {step}");
            let expected = Error::MessageTooLarge {
                size: 9 << 20,
                limit: 8 << 20,
            };
            assert_eq!(oversize.refusal(), Some(expected));
        }
    }

    #[test]
    fn messages_up_to_the_limit_pass() {
        let oversize = Oversize::default();
        let mut messages = Messages::new((), oversize.clone());
        let limit = usize::try_from(MAX_MESSAGE).expect("fits");
        assert!(messages.watch(&message(8 << 20, limit)).is_ok());
        assert!(messages.watch(&message(1, 1)).is_ok());
        assert_eq!(oversize.refusal(), None);
    }
}
