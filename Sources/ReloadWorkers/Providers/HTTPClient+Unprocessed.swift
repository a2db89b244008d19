package import AsyncHTTPClient
package import NIOCore
import NIOHTTP2
import WidgetModel

/// The task of Swift's concurrency, which the client's own type hides.
private typealias CurrentTask = Task<Never, Never>

extension HTTPClient {
    /// Most attempts to send a request. A connection that its peer closes after a number of requests serves at least one
    /// of those that wait for it.
    private static let unprocessedAttempts = 12
    private static let unprocessedBackoff = Backoff(base: .milliseconds(2), cap: .milliseconds(500))

    /// Executes a request, and sends it again on another connection if the peer states that it has not processed it.
    ///
    /// A proxy that closes an HTTP/2 connection after a number of requests names the last request that it has taken
    /// (GOAWAY), and a server may refuse a stream (RST_STREAM with REFUSED_STREAM). Such requests may be repeated
    /// whatever they do (RFC 9113, 8.7), and say nothing about the health of the peer.
    ///
    /// - Throws: the client's errors; that of the last attempt if the peer processed none.
    package func executeAgainIfUnprocessed(
        _ request: HTTPClientRequest, deadline: NIODeadline
    ) async throws -> HTTPClientResponse {
        var attempt = 1
        while true {
            do {
                return try await execute(request, deadline: deadline)
            } catch let error where attempt < Self.unprocessedAttempts && Self.isUnprocessed(error) {
                try CurrentTask.checkCancellation()
                try await CurrentTask.sleep(for: Self.unprocessedBackoff.delay(attempt: attempt))
                attempt += 1
            }
        }
    }

    /// Whether an error states that the peer has not processed the request.
    private static func isUnprocessed(_ error: any Error) -> Bool {
        switch error {
        // SwiftNIO reports the streams that a GOAWAY leaves out as cancelled. `StreamResetFilter` gives the peer's own
        // cancellations another code.
        case let error as NIOHTTP2Errors.StreamClosed: error.errorCode == .refusedStream || error.errorCode == .cancel
        case let error as NIOHTTP2Errors.StreamError: isUnprocessed(error.baseError)
        case is NIOHTTP2Errors.CreatedStreamAfterGoaway: true
        // The connection was closing before the request was sent. A cancelled task ends before the next attempt.
        case let error as HTTPClientError: error == .cancelled
        default: false
        }
    }
}
