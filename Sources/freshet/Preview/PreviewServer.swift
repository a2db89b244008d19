import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import WidgetAPI
import WidgetModel

/// Serves the page of a preview, its assets, and events that announce changes.
struct PreviewServer: Service {
    let host: String
    let port: Int
    let state: PreviewState
    let timeZone: String
    let lead: String
    let logger: Logger
    let onListening: @Sendable (Int) -> Void
    private let streams = StreamCount()

    private static let maximumStreams = 32
    /// Time after which an idle stream sends a comment, so that a closed one is noticed.
    private static let idle = Duration.seconds(15)

    private final class StreamCount: Sendable {
        let count = Atomic(0)
    }

    func run() async throws {
        let application = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { [onListening] channel in
                if let port = channel.localAddress?.port { onListening(port) }
            }, logger: logger)
        try await withGracefulShutdownHandler {
            try await application.run()
        } onGracefulShutdown: { [state] in
            state.close()
        }
    }

    var router: Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.get("") { request, _ in
            guard accepts(request) else { return Self.refusal }
            let (widgets, version) = state.current
            return PreviewPage(
                widgets: widgets, version: version, now: WallClock.now(), timeZone: timeZone, lead: lead
            ).page.response()
        }
        router.get("assets/:name") { request, context in
            guard accepts(request) else { return Self.refusal }
            return context.parameters.get("name").flatMap { ConsoleAssets.response($0, to: request) }
                ?? Response(status: .notFound, headers: ConsolePage.securityHeaders)
        }
        router.get("events") { request, _ in
            guard accepts(request) else { return Self.refusal }
            let known =
                request.headers[.init("Last-Event-ID")!] ?? request.uri.queryParameters["version"].map(String.init)
            return events(after: known.flatMap { Int($0) } ?? 0)
        }
        return router
    }

    private static let refusal = Response(status: .misdirectedRequest, headers: ConsolePage.securityHeaders)

    /// Whether a request names this host. A page of another origin whose name leads here must not read the preview.
    private func accepts(_ request: Request) -> Bool {
        let names = ["localhost", "127.0.0.1", "[::1]", host]
        guard ["localhost", "127.0.0.1", "::1"].contains(host), let authority = request.head.authority else {
            return true
        }
        return names.contains { authority == $0 || authority.hasPrefix($0 + ":") }
    }

    private func events(after known: Int) -> Response {
        guard streams.count.add(1, ordering: .relaxed).oldValue < Self.maximumStreams else {
            streams.count.subtract(1, ordering: .relaxed)
            return Response(status: .serviceUnavailable, headers: ConsolePage.securityHeaders)
        }
        var headers = ConsolePage.securityHeaders
        headers[.contentType] = "text/event-stream"
        headers[.cacheControl] = "no-store"
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody { [state, streams] writer in
                defer { streams.count.subtract(1, ordering: .relaxed) }
                try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
                var known = known
                while let news = try await Self.news(state, after: known) {
                    if news != known {
                        known = news
                        try await writer.write(ByteBuffer(string: "id: \(news)\nevent: changed\ndata: \(news)\n\n"))
                    } else {
                        try await writer.write(ByteBuffer(string: ": still here\n\n"))
                    }
                }
                try await writer.finish(nil)
            })
    }

    /// The number of the next change, or `known` after a while without one; nil at the end.
    private static func news(_ state: PreviewState, after known: Int) async throws -> Int? {
        try await withThrowingTaskGroup(of: Int?.self) { group in
            group.addTask { try await state.version(otherThan: known) }
            group.addTask {
                try await Task.sleep(for: idle)
                return known
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }
}
