import AsyncHTTPClient
import NIOCore
import ReloadWorkers

extension HTTPClient {
    /// Sends a request and reads its answer to the end, so that the connection can be used again. A request that the peer
    /// has not processed is sent again.
    ///
    /// The client's own deadline ends with the answer's head. After it, the exchange fails at the first part of the
    /// body that arrives after `timeout`, or when no part arrives for the read timeout of the client's configuration,
    /// which must be set. So it takes at most both times together, and adds no task or timer to the client's own.
    ///
    /// - Throws: the client's errors; `HTTPClientError.deadlineExceeded` after `timeout`; `NIOTooManyBytesError` for a
    ///   longer body.
    func exchange(
        _ request: HTTPClientRequest, timeout: Duration, upTo maximumBytes: Int
    ) async throws -> (response: HTTPClientResponse, body: ByteBuffer) {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        let response = try await executeAgainIfUnprocessed(request, deadline: deadline)
        var body = ByteBuffer()
        for try await part in response.body {
            guard NIODeadline.now() < deadline else { throw HTTPClientError.deadlineExceeded }
            guard body.readableBytes + part.readableBytes <= maximumBytes else {
                throw NIOTooManyBytesError(maxBytes: maximumBytes)
            }
            body.writeImmutableBuffer(part)
        }
        return (response, body)
    }
}
