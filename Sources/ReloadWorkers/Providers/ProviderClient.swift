// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
import Crypto
import Glibc
import NIOCore
package import NIOHTTP1
import NIOPosix
import Synchronization
import Waiting
package import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Sends requests to providers over HTTP: signed, bounded in time and size, without redirects, and only to permitted
/// addresses.
///
/// Addresses are checked twice: all addresses of the host before the request, for a clear error, and the real one of
/// every connection, in case the name's addresses change in between.
package final class ProviderClient: ProviderFetching {
    private let http: HTTPClient
    private let egress: EgressGuard
    private let clock: WorkerClock
    private let now: @Sendable () -> Timestamp

    /// - Parameters:
    ///   - http: a client with ``configuration(egress:)`` of the same guard, which follows no redirects and connects to
    ///     permitted addresses only. Its owner shuts it down.
    ///   - now: time of day, for signatures.
    package init(
        http: HTTPClient, egress: EgressGuard, clock: any Clock<Duration> = ContinuousClock(),
        now: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) {
        self.http = http
        self.egress = egress
        self.clock = WorkerClock(clock)
        self.now = now
    }

    /// Configuration of the HTTP client.
    ///
    /// - Parameters:
    ///   - connectionsPerHost: limit of all requests, since several apps may share a host and a slow one must not block
    ///     the others.
    ///   - limits: time limits and trusted certificates.
    package static func configuration(
        egress: EgressGuard, connectionsPerHost: Int = 8, limits: ConnectionLimits = ConnectionLimits()
    ) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connectionsPerHost
        // Shorter than a request's time limit: an absent provider must cost less than a slow one.
        configuration.timeout.connect = TimeAmount(limits.connectTimeout)
        configuration.timeout.read = TimeAmount(limits.readTimeout)
        // No decompression, so that a small answer cannot become large.
        configuration.decompression = .disabled
        configuration.tlsConfiguration = limits.tls
        // A failed connection fails the batch, which has its own back-off.
        configuration.connectionPool.retryConnectionEstablishment = false
        // A request with a trace has a span of the worker's, which carries the event's trace context on. The client's
        // own spans would cost each request, also without a tracer; requests without a trace have none.
        configuration.tracing.tracer = nil
        configuration.http1_1ConnectionDebugInitializer = { egress.check($0) }
        configuration.http2ConnectionDebugInitializer = { channel in
            egress.check(channel).flatMap { ConnectionLimits.prepareHTTP2(channel) }
        }
        return configuration
    }

    package func fetch(_ call: ProviderCall) async throws -> [UInt8] {
        let url: ProviderURL
        do {
            url = try ProviderURL(call.url)
        } catch {
            throw ProviderFailure(.refused, "the provider's URL may not be called: \(error.message)")
        }
        do {
            let body = try await withTimeLimit(call.timeout, clock: clock.clock) { [self] in
                try await egress.permit(url)
                let response = try await http.executeAgainIfUnprocessed(
                    request(call, url), deadline: .now() + TimeAmount(call.timeout))
                guard response.status == .ok else {
                    throw ProviderFailure(
                        .status, "answered with status \(response.status.code)",
                        retryAfter: Self.retryAfter(response.headers, now: now()), status: Int(response.status.code))
                }
                try Self.requireJSON(response.headers.first(name: "content-type"))
                let encoding = response.headers[canonicalForm: "content-encoding"].joined(separator: ",")
                guard encoding.isEmpty || encoding.lowercased() == "identity" else {
                    throw ProviderFailure(
                        .invalid, "the answer's content-encoding is \"\(encoding.prefix(64))\"; expected none")
                }
                return try await Self.read(response.body, atMost: call.maximumResponseBytes, headers: response.headers)
            }
            guard let body else {
                throw ProviderFailure(.timeout, "no complete answer within \(call.timeout)")
            }
            return body
        } catch let error as ProviderFailure {
            throw error
        } catch {
            try Task.checkCancellation()
            throw Self.failure(of: error)
        }
    }

    /// The signed request.
    private func request(_ call: ProviderCall, _ url: ProviderURL) -> HTTPClientRequest {
        let timestamp = now().microseconds / 1_000_000
        let id = Self.makeMessageID()
        var message = HTTPClientRequest(url: url.appending(call.endpoint.path))
        message.method = .POST
        message.headers = [
            "content-type": "application/json", "accept": "application/json", "accept-encoding": "identity",
            "user-agent": "freshet",
            "webhook-id": id, "webhook-timestamp": String(timestamp),
        ]
        if !call.secrets.isEmpty {
            let signature = Self.signature(secrets: call.secrets, id: id, timestamp: timestamp, body: call.body)
            message.headers.add(name: "webhook-signature", value: signature)
        }
        for (name, value) in call.headers { message.headers.replaceOrAdd(name: name, value: value) }
        message.body = .bytes(call.body)
        return message
    }

    private static func read(
        _ body: HTTPClientResponse.Body, atMost limit: Int, headers: HTTPHeaders
    ) async throws -> [UInt8] {
        let announced = headers.first(name: "content-length").flatMap { Int($0) } ?? 0
        guard announced <= limit else { throw tooLarge(limit) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(max(0, announced))
        // Leaving the loop early ends the request, so no more than the limit is ever read.
        for try await chunk in body {
            guard bytes.count + chunk.readableBytes <= limit else { throw tooLarge(limit) }
            bytes.append(contentsOf: chunk.readableBytesView)
        }
        return bytes
    }

    private static func tooLarge(_ limit: Int) -> ProviderFailure {
        ProviderFailure(.tooLarge, "the answer is longer than \(limit) bytes")
    }

    static func requireJSON(_ contentType: String?) throws {
        // The common answer, without the strings below.
        guard contentType != "application/json" else { return }
        let type = (contentType ?? "").prefix { $0 != ";" }.lowercased().filter { !$0.isWhitespace }
        guard type == "application/json" || (type.hasPrefix("application/") && type.hasSuffix("+json")) else {
            throw ProviderFailure(
                .invalid, "the answer's content-type is \"\(type.prefix(64))\"; expected application/json")
        }
    }

    private static let timeouts: [HTTPClientError] = [
        .deadlineExceeded, .connectTimeout, .readTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout,
    ]

    /// Failure of a batch for an error of the HTTP client. Its message contains no headers or bodies.
    private static func failure(of error: any Error) -> ProviderFailure {
        switch error {
        case let error as EgressGuard.Refusal:
            ProviderFailure(.refused, error.description)
        case let error as IPAddress.LookupFailure:
            ProviderFailure(.unresolved, "the provider's host was not found: \(error.message)")
        case let error as HTTPClientError where timeouts.contains(error):
            ProviderFailure(.timeout, error == .connectTimeout ? "no connection in time" : "no answer in time")
        default:
            ProviderFailure(.connection, words(for: error))
        }
    }

    /// Words for an error of a connection, without the names of the libraries' types.
    static func words(for error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // One for each address of the host.
            error.connectionErrors.first.map { words(for: $0.error) } ?? "no address of the host answers"
        case let error as IOError:
            switch error.errnoCode {
            case ECONNREFUSED: "the connection is refused: nothing listens at the provider's address"
            case ECONNRESET, EPIPE: "the provider closed the connection"
            case EHOSTUNREACH, ENETUNREACH: "the provider's address cannot be reached from here"
            default: unsafe "the connection failed: \(String(cString: strerror(error.errnoCode)))"
            }
        case let error as HTTPClientError:
            error == .remoteConnectionClosed
                ? "the provider closed the connection before it answered"
                : "the request failed: \(error.shortDescription)"
        default: "the connection failed: \(error)"
        }
    }
}

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

extension ProviderClient {
    // MARK: Signatures

    /// Value of `webhook-signature` by Standard Webhooks, which lets receivers verify origin and freshness: HMAC-SHA256
    /// of `id.timestamp.body` for each secret, separated by spaces.
    ///
    /// - Parameters:
    ///   - secrets: the app's, the newest first; more than one while a secret is being replaced.
    ///   - id: unique value of `webhook-id`.
    ///   - timestamp: value of `webhook-timestamp`, seconds since 1970.
    package static func signature(secrets: [[UInt8]], id: String, timestamp: Int64, body: [UInt8]) -> String {
        secrets.map { secret in
            var code = HMAC<SHA256>(key: SymmetricKey(data: secret))
            code.update(data: Array("\(id).\(timestamp).".utf8))
            code.update(data: body)
            return "v1," + Data(code.finalize()).base64EncodedString()
        }.joined(separator: " ")
    }

    /// A unique value for `webhook-id`.
    package static func makeMessageID() -> String { "msg_" + String.randomID() }

    // MARK: Retry-After

    /// Delay of the header `Retry-After` (RFC 9110, section 10.2.3), seconds or a date; nil without one.
    package static func retryAfter(_ headers: HTTPHeaders, now: Timestamp) -> Duration? {
        headers.first(name: "retry-after").flatMap { retryAfter($0, date: headers.first(name: "date"), now: now) }
    }

    /// Delay of a header's value; nil if it is invalid. Past dates give zero.
    ///
    /// - Parameters:
    ///   - date: the answer's `Date`, so that only the provider's clock counts.
    ///   - now: time of day, for answers without a date.
    static func retryAfter(_ text: String, date: String?, now: Timestamp) -> Duration? {
        let text = trimmed(text)
        guard !text.isEmpty else { return nil }
        if text.utf8.allSatisfy({ (48...57).contains($0) }) {
            // A number that does not fit is a very long time.
            return .seconds(min(Int64(text) ?? .max, longestRetryAfter))
        }
        guard let time = Self.date(text) else { return nil }
        let base = date.flatMap { Self.date(trimmed($0)) } ?? now
        return max(.zero, time - base)
    }

    /// Upper limit: a century.
    private static let longestRetryAfter: Int64 = 3_155_760_000

    private static func trimmed(_ text: String) -> String {
        String(text.drop { $0 == " " || $0 == "\t" }.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Reads the usual form of dates of HTTP (RFC 9110, section 5.6.7), `Sun, 06 Nov 1994 08:49:37 GMT`, ignoring the
    /// day of the week.
    static func date(_ text: String) -> Timestamp? {
        guard let parts = text.wholeMatch(of: /[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9:]{8}) GMT/),
            let month = months.firstIndex(of: String(parts.2))
        else { return nil }
        // Checks the ranges.
        return Timestamp(rfc3339: "\(parts.3)-\(month < 9 ? "0" : "")\(month + 1)-\(parts.1)T\(parts.4)Z")
    }
}
