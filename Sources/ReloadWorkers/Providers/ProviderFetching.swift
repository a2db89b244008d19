package import WidgetModel

/// A request to a provider.
package struct ProviderCall: Sendable {
    /// Registered URL, without the endpoint.
    package var url: String
    package var endpoint: ProviderEndpoint
    /// Signing secrets of the app, the newest first. Never printed or logged.
    package var secrets: [[UInt8]]
    package var body: [UInt8]
    /// Time limit up to the last byte of the answer.
    package var timeout: Duration
    package var maximumResponseBytes: Int
    /// Additional headers, for the trace context.
    package var headers: [String: String] = [:]

    package init(
        url: String, endpoint: ProviderEndpoint = .timelines, secrets: [[UInt8]], body: [UInt8], timeout: Duration,
        maximumResponseBytes: Int
    ) {
        (self.url, self.endpoint, self.secrets) = (url, endpoint, secrets)
        (self.body, self.timeout, self.maximumResponseBytes) = (body, timeout, maximumResponseBytes)
    }
}

package protocol ProviderFetching: Sendable {
    /// The body of a complete JSON answer with status 200.
    ///
    /// - Throws: ``ProviderFailure``; `CancellationError`.
    func fetch(_ call: ProviderCall) async throws -> [UInt8]
}
