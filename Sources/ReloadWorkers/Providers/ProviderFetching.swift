package import WidgetModel

package struct ProviderCall: Sendable {
    /// As registered, without the endpoint.
    package var url: String
    package var endpoint: ProviderEndpoint
    /// The app's, to sign with, the newest first. Never printed or logged.
    package var secrets: [[UInt8]]
    package var body: [UInt8]
    /// From the start to the last byte of the answer.
    package var timeout: Duration
    package var maximumResponseBytes: Int
    /// Besides those that every request has: the trace that it belongs to.
    package var headers: [String: String] = [:]

    package init(
        url: String, endpoint: ProviderEndpoint = .timelines, secrets: [[UInt8]], body: [UInt8], timeout: Duration,
        maximumResponseBytes: Int
    ) {
        self.url = url
        self.endpoint = endpoint
        self.secrets = secrets
        self.body = body
        self.timeout = timeout
        self.maximumResponseBytes = maximumResponseBytes
    }
}

package protocol ProviderFetching: Sendable {
    /// The body of a complete answer with status 200 and JSON in it.
    ///
    /// - Throws: ``ProviderFailure``, or `CancellationError` when the task is cancelled.
    func fetch(_ call: ProviderCall) async throws -> [UInt8]
}
