//! One client's connection as a task: reads, hands requests to the driver, writes replies.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

use super::driver::{Handle, Turn};
use super::hangup::{Parting, broken, parting};
use super::mailbox::{Delivery, Ending};
use crate::api::Reply;
use crate::session::{MAX_SLICES, Next, Session, SessionLimits, Violation};

thread_local! {
    /// Where replies are encoded. Shared by the connections of a thread, so that waiting ones hold none of it; its
    /// memory is used again once the replies made from it are written.
    static SCRATCH: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// How many bytes of replies may be kept back until the requests that came with theirs are handled.
const MAX_KEPT_BYTES: usize = 16 << 10;

/// How much a connection may do in one go before others have their turn, in bytes read and written; a client that
/// always has something to say would keep the thread for itself otherwise.
const MAX_WORK_BYTES: usize = 128 << 10;
/// What a request counts for beside its bytes.
const REQUEST_WORK_BYTES: usize = 2 << 10;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client closed it; in the middle of a frame or with a request waiting, if `early`.
    Client { early: bool },
    /// We ended it.
    Ours(Ending),
    /// What the client sent is no request.
    Violation(Violation),
    /// The socket failed.
    Socket(io::Error),
    /// A response could not be encoded: a defect of huld.
    Encode(String),
}

/// A connection and what it is made of.
pub(crate) struct Connection {
    stream: TcpStream,
    session: Session,
    handle: Handle,
    /// What was done since others last had their turn.
    work_bytes: usize,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, handle: Handle, limits: SessionLimits) -> Self {
        Connection { stream, session: Session::new(limits), handle, work_bytes: 0 }
    }

    /// Serves the client until either side ends it. What was answered before is written first.
    pub(crate) async fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                if !matches!(end, End::Socket(_) | End::Client { .. } | End::Ours(Ending::Idle)) {
                    // Whether or not this works, the connection ends for the first reason.
                    let _ = self.flush().await;
                }
                return end;
            }
        }
    }

    /// One request; if there is none, one read.
    ///
    /// Replies to requests that came together leave together, which spares system calls: nothing is kept back once
    /// there is anything to wait for.
    async fn step(&mut self) -> Result<(), End> {
        if self.work_bytes >= MAX_WORK_BYTES {
            self.flush().await?;
            tokio::task::yield_now().await;
            self.work_bytes = 0;
        }
        let prepared = match self.session.next_request().map_err(End::Violation)? {
            Some(Next::Ready(prepared)) => prepared,
            Some(Next::Heavy(preparing)) => {
                self.flush().await?;
                aside(move || preparing.prepare()).await?.map_err(End::Violation)?
            }
            None => {
                self.flush().await?;
                return self.read().await;
            }
        };
        self.work_bytes += REQUEST_WORK_BYTES;
        let reply = match self.handle.request(prepared) {
            Turn::Reply(reply) => reply,
            Turn::Parked => {
                self.flush().await?;
                self.wait().await?
            }
            Turn::End(ending) => return Err(End::Ours(ending)),
        };
        let reply = if reply.is_heavy() {
            self.flush().await?;
            aside(move || reply.finish()).await?
        } else {
            reply
        };
        SCRATCH
            .with_borrow_mut(|scratch| self.session.answer(&reply, scratch))
            .map_err(|error| End::Encode(error.to_string()))?;
        drop(reply);
        if self.session.output().byte_count() >= MAX_KEPT_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Reads what is there, or waits until something is.
    async fn read(&mut self) -> Result<(), End> {
        let Connection { stream, session, handle, work_bytes } = self;
        let mailbox = handle.mailbox();
        mailbox.note_buffer(session.release_small());
        let count = poll_fn(|context| {
            if mailbox.takes_trim() {
                session.release();
            }
            if let Poll::Ready(ending) = mailbox.poll_ending(context) {
                return Poll::Ready(Err(End::Ours(ending)));
            }
            // The buffer is made once there is something to put into it: a quiet connection needs none.
            let Poll::Ready(readable) = stream.poll_read_ready(context) else {
                *work_bytes = 0;
                return Poll::Pending;
            };
            readable.map_err(End::Socket)?;
            let mut buffer = session.read_buffer();
            let read = pin!(stream.read_buf(&mut buffer)).poll(context);
            if read.is_pending() {
                session.release_small();
            }
            read.map_err(End::Socket)
        })
        .await?;
        mailbox.note_active(handle.driver().clock().instant());
        *work_bytes += count;
        if count == 0 { Err(End::Client { early: session.is_within_frame() }) } else { Ok(()) }
    }

    /// Waits for the reply to a request that is parked. A connection that breaks meanwhile ends the wait. One that the
    /// client has closed, or its sending half alone, which can't be told apart, does not: as in Kafka the answer is
    /// written for whom it may concern. Such a one no longer counts as busy, so that it is closed when it has been idle
    /// for long.
    async fn wait(&mut self) -> Result<Reply, End> {
        let Connection { stream, session, handle, .. } = self;
        session.release();
        let mailbox = handle.mailbox();
        mailbox.note_waiting();
        let mut gone = pin!(async {
            if parting(stream).await == Parting::SendingEnded {
                mailbox.note_active(handle.driver().clock().instant());
                handle.sending_ended();
                broken(stream).await;
            }
        });
        let delivery = poll_fn(|context| match mailbox.poll_delivery(context) {
            Poll::Ready(delivery) => Poll::Ready(Some(delivery)),
            Poll::Pending => gone.as_mut().poll(context).map(|()| None),
        })
        .await;
        mailbox.note_active(handle.driver().clock().instant());
        match delivery {
            Some(Delivery::Reply(reply)) => Ok(reply),
            Some(Delivery::End(Ending::ClientGone)) | None => Err(End::Client { early: true }),
            Some(Delivery::End(ending)) => Err(End::Ours(ending)),
        }
    }

    /// Writes everything that is queued. A client that doesn't read holds up itself alone, and no longer than an
    /// idle one.
    async fn flush(&mut self) -> Result<(), End> {
        let Connection { stream, session, handle, work_bytes } = self;
        let output = session.output();
        while !output.is_empty() {
            let written = poll_fn(|context| {
                let stream = Pin::new(&mut *stream);
                let written = match output.single() {
                    Some(bytes) => stream.poll_write(context, bytes),
                    None => {
                        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
                        let count = output.slices(&mut slices);
                        stream.poll_write_vectored(context, slices.get(..count).unwrap_or_default())
                    }
                };
                if written.is_pending() && is_idle(handle, context) {
                    return Poll::Ready(Err(End::Ours(Ending::Idle)));
                }
                written.map_err(End::Socket)
            })
            .await?;
            if written == 0 {
                return Err(End::Socket(io::ErrorKind::WriteZero.into()));
            }
            output.advance(written);
            *work_bytes += written;
        }
        Ok(())
    }
}

fn is_idle(handle: &Handle, context: &mut Context<'_>) -> bool {
    handle.mailbox().poll_ending(context) == Poll::Ready(Ending::Idle)
}

/// Works on a thread for such work, so that everybody else goes on meanwhile.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, End> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(End::Ours(Ending::Shutdown)),
        },
    }
}
