import AsyncHTTPClient
import NIOCore
import ReloadWorkers

extension HTTPClient {
    /// Sends a request and reads its answer to the end, so that the connection can be used again.
    ///
    /// The client itself limits only the time to the answer's head. The body is read until the first part that comes after the
    /// limit, or after a silence of the read timeout in the client's configuration. An exchange can thus take the limit and the
    /// read timeout together, but it needs no task or timer of its own.
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
