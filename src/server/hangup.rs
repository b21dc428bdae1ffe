//! Learning that a client has gone while its request waits, without reading what it may have sent.

use tokio::net::TcpStream;

/// Waits until the client has closed the connection, or at least its sending half.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) async fn hung_up(stream: &TcpStream) {
    // Of all interests this is the one that wakes for a closed reading half but not for data. An error is reported
    // as closed too; what it was no longer matters.
    let _ = stream.ready(tokio::io::Interest::PRIORITY).await;
}

/// Waits until the client has closed the connection, or at least its sending half. If it has sent something before,
/// that hides the end, and this never returns.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) async fn hung_up(stream: &TcpStream) {
    if let Ok(1..) = stream.peek(&mut [0]).await {
        std::future::pending().await
    }
}
