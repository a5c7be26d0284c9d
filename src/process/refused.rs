//! What to do when no connection can be accepted.

use std::time::Duration;

use tokio::time::timeout;

/// How long to wait for a descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits, after a connection could not be accepted, until it is worth another try.
///
/// Nearly always no descriptor is left. The connection that waits keeps the listener ready, so
/// without a pause this would be tried without end; and nothing tells when there is a descriptor
/// again, except the end of a connection of one's own: that is `freed`.
///
/// # Cancel safety
///
/// As `freed`.
pub async fn until_worth_another_try(freed: impl Future<Output = ()>) {
    drop(timeout(PAUSE, freed).await);
}
