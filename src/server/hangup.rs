//! Learning of a client that goes while its request waits, without reading what it may have sent.
//!
//! The end of what a client sends says little: it may have closed the connection, or its sending half alone and read on.
//! Only a connection that is reset is known to be gone.

use tokio::io::Interest;
use tokio::net::TcpStream;

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It will send no more.
    SendingEnded,
    /// The connection is broken.
    Broken,
}

/// Waits until the client goes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) async fn parting(stream: &TcpStream) -> Parting {
    // Of all interests the first is the one that wakes for a closed reading half but not for data.
    match stream.ready(Interest::PRIORITY | Interest::ERROR).await {
        Ok(ready) if !ready.is_error() => Parting::SendingEnded,
        _ => Parting::Broken,
    }
}

/// Waits until the client goes. If it has sent something before, that hides the end, and only a broken connection is
/// noticed.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) async fn parting(stream: &TcpStream) -> Parting {
    match stream.peek(&mut [0]).await {
        Ok(0) => Parting::SendingEnded,
        Ok(_) => {
            broken(stream).await;
            Parting::Broken
        }
        Err(_) => Parting::Broken,
    }
}

/// Waits until the connection is broken.
pub(crate) async fn broken(stream: &TcpStream) {
    // Whatever it was no longer matters.
    let _ = stream.ready(Interest::ERROR).await;
}
