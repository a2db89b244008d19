import AsyncHTTPClient
import NIOCore
import ReloadWorkers

extension HTTPClient {
    /// Sends a request and reads its answer to the end, so that the connection can be used again.
    ///
    /// The client's own limit ends with the answer's head. After it, each part of the body must come within the read timeout
    /// of the client's configuration, and before the limit; this costs a push no task and no timer of its own.
    ///
    /// - Throws: the client's errors; `HTTPClientError.deadlineExceeded` after the limit.
    func exchange(
        _ request: HTTPClientRequest, timeout: Duration, upTo maximumBytes: Int
    ) async throws -> (response: HTTPClientResponse, body: ByteBuffer) {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        let response = try await execute(request, deadline: deadline)
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
