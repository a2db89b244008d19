import AsyncHTTPClient
import NIOCore
import ReloadWorkers

extension HTTPClient {
    /// Sends a request and reads its answer to the end, so that the connection can be used again; within the limit, which
    /// the client itself ends with the answer's head.
    func exchange(
        _ request: HTTPClientRequest, timeout: Duration, upTo maximumBytes: Int
    ) async throws -> (response: HTTPClientResponse, body: ByteBuffer) {
        try await withThrowingTaskGroup(of: (response: HTTPClientResponse, body: ByteBuffer).self) { group in
            group.addTask {
                let response = try await self.execute(request, timeout: TimeAmount(timeout))
                return (response, try await response.body.collect(upTo: maximumBytes))
            }
            group.addTask {
                try await ContinuousClock().sleep(for: timeout)
                throw HTTPClientError.deadlineExceeded
            }
            defer { group.cancelAll() }
            guard let result = try await group.next() else { throw CancellationError() }
            return result
        }
    }
}
